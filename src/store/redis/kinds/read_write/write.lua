-- read_write/write: grants the write lock, if no other owner has the lock.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, `owner:write`: hold count};
--                     lives as long as the longest lease
--   KEYS[2]  writers  zset {owner: its arrival, `until:owner`: negative expiry time of the entry};
--                     only passed by a waiting writer
--   ARGV[1]  owner    unique to this acquisition
--   ARGV[2]  ttl      lease in milliseconds
--   ARGV[3]  writer   the field of this owner as a writer
--   ARGV[4]  counts   milliseconds for which a writer counts as waiting after its last request
--
--   owner                  granted. A repeated request gets the same grant and a fresh lease
--   {pttl, owner, count}   held for at most pttl milliseconds (-1: without end)
--
-- Cost: PTTL, HEXISTS, HSET, PEXPIRE and ZREM; when held HGET, HGETALL, ZRANGEBYSCORE and ZADD.

-- Removes a waiting writer. A rejection is ignored, because the entry also expires.
local function leave_the_writers(owner)
    redis.pcall('ZREM', KEYS[2], owner, 'until:' .. owner)
end

local function wait_among_the_writers()
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local dead = redis.pcall('ZRANGEBYSCORE', KEYS[2], '(' .. -now, '(0', 'LIMIT', '0', '16')
    for _, ends in ipairs(dead) do
        leave_the_writers(string.sub(ends, 7))
    end
    local ends = redis.pcall('ZADD', KEYS[2], -(now + ARGV[4]), 'until:' .. ARGV[1])
    local came = redis.pcall('ZADD', KEYS[2], 'NX', now, ARGV[1])
    local lease = redis.pcall('PEXPIRE', KEYS[2], 2 * ARGV[4])
    if type(ends) == 'table' or type(came) == 'table' or type(lease) == 'table' then
        leave_the_writers(ARGV[1])
    end
end

local pttl = redis.call('PTTL', KEYS[1])
if pttl ~= -2 and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
    if KEYS[2] then
        wait_among_the_writers()
    end
    return in_the_way(KEYS[1], redis.call('HGET', KEYS[1], 'mode'), pttl)
end

if pttl == -2 then
    redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[3], '1')
end
if pttl < tonumber(ARGV[2]) then
    local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(lease) == 'table' then
        if pttl == -2 then
            -- Without a TTL, the hold would never end.
            redis.call('HDEL', KEYS[1], 'mode', ARGV[3])
        end
        return lease
    end
end
if KEYS[2] then
    leave_the_writers(ARGV[1])
end
return ARGV[1]
