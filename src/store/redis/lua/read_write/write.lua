-- read_write/write: let a writer in, if nobody else has the lock.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count};
--                     lives as long as the longest lease
--   KEYS[2]  writers  zset {owner: until when it counts, in milliseconds}; only given by one
--                     who waits
--   ARGV[1]  owner    who asks, unique to this acquisition
--   ARGV[2]  ttl      lease in milliseconds
--   ARGV[3]  writer   the same owner as a writer
--   ARGV[4]  counts   for how many milliseconds it counts among those who wait
--
--   owner                  granted. Asking again gives the same grant and a fresh lease
--   {pttl, owner, count}   taken for at most pttl milliseconds (-1: without end)
--
-- Time: PTTL, HEXISTS, HSET, PEXPIRE and ZREM; HLEN, HGETALL and ZADD when taken.

local pttl = redis.call('PTTL', KEYS[1])
if pttl ~= -2 and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
    if KEYS[2] then
        local now = redis.call('TIME')
        local millis = now[1] * 1000 + math.floor(now[2] / 1000)
        redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. millis)
        redis.call('ZADD', KEYS[2], millis + ARGV[4], ARGV[1])
        redis.call('PEXPIRE', KEYS[2], 2 * ARGV[4])
    end
    return holder(KEYS[1], pttl)
end

if pttl == -2 then
    redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[3], '1')
end
if pttl < tonumber(ARGV[2]) then
    local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(lease) == 'table' then
        if pttl == -2 then
            -- Without a lease nobody may have it.
            redis.call('HDEL', KEYS[1], 'mode', ARGV[3])
        end
        return lease
    end
end
if KEYS[2] then
    redis.call('ZREM', KEYS[2], ARGV[1])
end
return ARGV[1]
