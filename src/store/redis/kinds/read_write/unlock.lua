-- read_write/unlock: releases a writer, which may keep a read hold, and notifies the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count}
--   KEYS[2]  writers  zset {owner: its arrival, until:owner: minus the time when it expires};
--                     only passed by a writer that may have waited
--   ARGV[1]  owner    of the write hold
--   ARGV[2]  writer   the field of this owner as a writer
--   ARGV[3]  channel  on which the lock is announced as free, or free for readers
--   ARGV[4]  prefix   of the leases of readers
--   ARGV[5]  own      how many of the subscribers belong to the releasing client
--
--   0                      released
--   gap                    released; others listen, and may ask first for 2 to 16 milliseconds
--   -1                     released, but the server denied the announcement
--   {}                     was not the writer, and nobody has the lock
--   {pttl, owner, count}   was not the writer
--
-- Remaining readers keep the lock as long as their leases last. The length of the gap changes each
-- second, because some clients have longer round trips than others.
--
-- Time: HEXISTS, HLEN, HDEL, DEL, PUBLISH and TIME; ZREM; the cost of the longest lease.

local function notify()
    local ears = redis.pcall('PUBLISH', ARGV[3], '1')
    if type(ears) == 'table' then
        return -1
    elseif ears <= tonumber(ARGV[5]) then
        return 0
    end
    return 2 ^ (1 + redis.call('TIME')[1] % 4)
end

-- Returns whether it was among the waiting writers. Even if the ACL denies the key, the lock is
-- released.
local function leave_the_writers()
    local gone = redis.pcall('ZREM', KEYS[2], ARGV[1], 'until:' .. ARGV[1])
    return type(gone) == 'number' and gone > 0
end

local waited = KEYS[2] and leave_the_writers()
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    if waited then
        -- Until now, readers have waited for this writer.
        notify()
    end
    local pttl = redis.call('PTTL', KEYS[1])
    return pttl == -2 and {} or in_the_way(KEYS[1], redis.call('HGET', KEYS[1], 'mode'), pttl)
end
if redis.call('HLEN', KEYS[1]) <= 2 then
    redis.call('DEL', KEYS[1])
    return notify()
end

redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], 'mode', 'read')
local left = longest_lease(KEYS[1], ARGV[4])
if left then
    -- With 0 the key is deleted: no reader is left.
    redis.pcall('PEXPIRE', KEYS[1], left)
end
return notify()
