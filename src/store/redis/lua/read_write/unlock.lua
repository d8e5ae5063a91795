-- read_write/unlock: let a writer out, who may go on reading, and tell the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count}
--   KEYS[2]  writers  zset {owner: until when it counts, in milliseconds}; only given by one
--                     who may have waited
--   ARGV[1]  owner    who writes
--   ARGV[2]  writer   the same owner as a writer
--   ARGV[3]  channel  where to say that the lock is free, or free to be read
--
--   0                      out
--   -1                     the same, but the server refused to say so on the channel
--   {}                     did not write, and nobody has the lock
--   {pttl, owner, count}   did not write
--
-- Time: HDEL, HLEN, DEL and PUBLISH; ZREM and ZCARD.

local function tell()
    if type(redis.pcall('PUBLISH', ARGV[3], '1')) == 'table' then
        return -1
    end
    return 0
end

local waited = KEYS[2] and redis.call('ZREM', KEYS[2], ARGV[1]) == 1
if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then
    if waited and redis.call('ZCARD', KEYS[2]) == 0 then
        -- Readers have let it go first.
        tell()
    end
    local pttl = redis.call('PTTL', KEYS[1])
    return pttl == -2 and {} or holder(KEYS[1], pttl)
end
if redis.call('HLEN', KEYS[1]) <= 1 then
    redis.call('DEL', KEYS[1])
else
    redis.call('HSET', KEYS[1], 'mode', 'read')
end
return tell()
