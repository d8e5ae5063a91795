-- read_write/unlock: let a writer out, who may go on reading, and tell the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count}
--   KEYS[2]  writers  zset {owner: when it came, until:owner: minus when it counts no longer};
--                     only given by one who may have waited
--   ARGV[1]  owner    who writes
--   ARGV[2]  writer   the same owner as a writer
--   ARGV[3]  channel  where to say that the lock is free, or free to be read
--   ARGV[4]  prefix   how the leases of readers begin
--   ARGV[5]  own      how many of those who hear of it are who gives it back
--
--   0                      out
--   gap                    out; others hear of it, to whom so many milliseconds are due, 2 to 16
--   -1                     the same, but the server refused to say so on the channel
--   {}                     did not write, and nobody has the lock
--   {pttl, owner, count}   did not write
--
-- Readers that are left keep the lock as long as their leases last. The gaps grow and shrink by
-- the second: some who hear of it are farther away than others.
--
-- Time: HEXISTS, HLEN, HDEL, DEL, PUBLISH and TIME; ZREM; what it takes to know the longest lease.

local function tell()
    local ears = redis.pcall('PUBLISH', ARGV[3], '1')
    if type(ears) == 'table' then
        return -1
    elseif ears <= tonumber(ARGV[5]) then
        return 0
    end
    return 2 ^ (1 + redis.call('TIME')[1] % 4)
end

-- Whether it stood among those who wait to write. A key that we may not have is no reason
-- to keep a lock.
local function leave_the_writers()
    local gone = redis.pcall('ZREM', KEYS[2], ARGV[1], 'until:' .. ARGV[1])
    return type(gone) == 'number' and gone > 0
end

local waited = KEYS[2] and leave_the_writers()
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    if waited then
        -- Readers have let it go first.
        tell()
    end
    local pttl = redis.call('PTTL', KEYS[1])
    return pttl == -2 and {} or in_the_way(KEYS[1], redis.call('HGET', KEYS[1], 'mode'), pttl)
end
if redis.call('HLEN', KEYS[1]) <= 2 then
    redis.call('DEL', KEYS[1])
    return tell()
end

redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], 'mode', 'read')
local left = longest_lease(KEYS[1], ARGV[4])
if left then
    -- With 0 it is gone: nobody reads any more.
    redis.pcall('PEXPIRE', KEYS[1], left)
end
return tell()
