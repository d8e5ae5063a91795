-- rate_limiter/set: sets or changes the rate of a limiter, or deletes the limiter.
--
--   KEYS[1]  limiter         hash {rate, interval, type, keepAliveTime}
--   KEYS[2]  value           permits left, of all clients together
--   KEYS[3]  client's value  permits left to this client, if each client has its own
--   KEYS[4]  permits         zset {member: milliseconds}, of all clients together
--   KEYS[5]  client's        zset {member: milliseconds} of this client
--   KEYS[6]  receipt         the reply to this request, kept for a minute
--   ARGV[1]  rest            milliseconds for which the receipt is kept
--   ARGV[2]  how             `absent` sets the rate unless a rate is set; `set` sets the rate and
--                            starts a new window; `update` changes an existing rate, and keeps the
--                            window if the type stays; `delete` deletes the limiter
--   ARGV[3]  rate            permits in an interval
--   ARGV[4]  interval        milliseconds
--   ARGV[5]  type            0 for all clients together, 1 for each client
--   ARGV[6]  idle            keepAliveTime: milliseconds until an idle limiter ends; 0 for never
--
--   1       done
--   0       nothing changed: `absent` found a rate, or `update` or `delete` found no rate
--   {err}   WRONGTYPE: the key is a hash of another kind, such as a lock
--
-- A new window costs DEL. A kept window costs TIME, ZRANGEBYSCORE, ZREMRANGEBYSCORE, SET and PTTL.
--
-- Cost: GET, HGET, EXISTS for a new limiter, SET twice, HSET, and PEXPIRE or PERSIST.

local before = answered(KEYS[6])
if before then
    return before
end

local rest, how, kind = ARGV[1], ARGV[2], ARGV[5]
local old = redis.call('HGET', KEYS[1], 'type')
if not old and redis.call('EXISTS', KEYS[1]) == 1 then
    return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is the hash of something else')
end

local keeps_window = how == 'update' and old == kind
local gone, used, refused
if keeps_window then
    local permits = kind == '1' and KEYS[5] or KEYS[4]
    gone = whole(milliseconds() - ARGV[4])
    used, refused = sum(redis.call('ZRANGEBYSCORE', permits, '(' .. gone, '+inf'), permits)
    if refused then
        return refused
    end
end

make_room(KEYS[6], rest)
local is_in_vain = {absent = old, update = not old, delete = not old}
if is_in_vain[how] then
    return answer(KEYS[6], rest, 0)
end

if how == 'delete' then
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
    return answer(KEYS[6], rest, 1)
end

redis.call('HSET', KEYS[1], 'rate', ARGV[3], 'interval', ARGV[4], 'type', kind,
    'keepAliveTime', ARGV[6])
if ARGV[6] == '0' then
    redis.call('PERSIST', KEYS[1])
else
    redis.call('PEXPIRE', KEYS[1], ARGV[6])
end

if keeps_window then
    local it = limiter_at(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
    redis.call('ZREMRANGEBYSCORE', it.permits, '-inf', gone)
    redis.call('SET', it.value, whole(math.max(it.rate - used, 0)))
    keep(it)
elseif how ~= 'absent' then
    redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
end
return answer(KEYS[6], rest, 1)
