-- read_write/unlock: let a writer out, who may go on reading, and tell the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count}
--   KEYS[2]  writers  zset {owner: when it came, until:owner: minus when it counts no longer};
--                     only given by one who may have waited
--   ARGV[1]  owner    who writes
--   ARGV[2]  writer   the same owner as a writer
--   ARGV[3]  channel  where to say that the lock is free, or free to be read
--   ARGV[4]  prefix   how the leases of readers begin
--
--   0                      out
--   -1                     the same, but the server refused to say so on the channel
--   {}                     did not write, and nobody has the lock
--   {pttl, owner, count}   did not write
--
-- Readers that are left keep the lock as long as their leases last.
--
-- Time: HDEL, HLEN, DEL and PUBLISH; ZREM; what it takes to know the longest lease.

local function tell()
    if type(redis.pcall('PUBLISH', ARGV[3], '1')) == 'table' then
        return -1
    end
    return 0
end

-- Whether it stood among those who wait to write. A key that we may not have is no reason
-- to keep a lock.
local function leave_the_writers()
    local gone = redis.pcall('ZREM', KEYS[2], ARGV[1], 'until:' .. ARGV[1])
    return type(gone) == 'number' and gone > 0
end

local waited = KEYS[2] and leave_the_writers()
if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then
    if waited then
        -- Readers have let it go first.
        tell()
    end
    local pttl = redis.call('PTTL', KEYS[1])
    return pttl == -2 and {} or in_the_way(KEYS[1], redis.call('HGET', KEYS[1], 'mode'), pttl)
end
if redis.call('HLEN', KEYS[1]) > 1 then
    redis.call('HSET', KEYS[1], 'mode', 'read')
    local left = longest_lease(KEYS[1], ARGV[4])
    if left then
        -- With 0 it is gone: nobody reads any more.
        redis.call('PEXPIRE', KEYS[1], left)
    end
else
    redis.call('DEL', KEYS[1])
end
return tell()
