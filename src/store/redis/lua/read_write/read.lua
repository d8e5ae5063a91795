-- read_write/read: let a reader in, unless somebody writes.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count};
--                     lives as long as the longest lease
--   KEYS[2]  lease    string; lives as long as the lease of this reader
--   KEYS[3]  writers  zset {owner: until when it counts, in milliseconds}; only given by a
--                     reader that lets those writers go first who wait
--   ARGV[1]  owner    who asks, unique to this acquisition
--   ARGV[2]  ttl      lease in milliseconds
--   ARGV[3]  writer   the same owner as a writer, which may read as well
--
--   owner                  granted. Asking again gives the same grant and a fresh lease
--   {pttl, owner, count}   somebody writes for at most pttl milliseconds (-1: without end)
--   {}                     somebody waits to write
--
-- Time: HGET, HEXISTS, ZCOUNT, SET, HSET, PTTL and PEXPIRE, however many read.

local mode = redis.call('HGET', KEYS[1], 'mode')
local writes = mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1
if mode ~= 'read' and not writes then
    local pttl = redis.call('PTTL', KEYS[1])
    if pttl ~= -2 then
        return holder(KEYS[1], pttl)
    end
end

if KEYS[3] and not writes and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    local now = redis.call('TIME')
    local millis = now[1] * 1000 + math.floor(now[2] / 1000)
    if redis.call('ZCOUNT', KEYS[3], millis, '+inf') > 0 then
        return {}
    end
end

redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
if not mode then
    redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(lease) == 'table' then
        -- Without a lease nobody may have it.
        redis.call('HDEL', KEYS[1], ARGV[1])
        if not mode then
            redis.call('HDEL', KEYS[1], 'mode')
        end
        return lease
    end
end
return ARGV[1]
