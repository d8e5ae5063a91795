-- read_write/unlock: releases a write hold, and notifies the waiters. A read hold stays.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   KEYS[2]  writers  zset {owner: its arrival, `until:owner`: negative expiry time of the entry};
--                     only passed by a writer that may have waited
--   ARGV[1]  owner    of the write hold
--   ARGV[2]  writer   the field of this owner as a writer
--   ARGV[3]  channel  on which `1` announces that the lock is free, at least for readers
--   ARGV[4]  prefix   of the leases of readers
--   ARGV[5]  own      how many of the subscribers belong to the releasing client
--
--   0                      the write hold is released
--   2, 4, 8 or 16          the same, and other clients are subscribed. For this many milliseconds,
--                          the other clients may send requests first
--   -1                     the same, but the server denied the announcement
--   {}                     this owner was not the writer, and no owner holds the lock
--   {pttl, owner, count}   this owner was not the writer, and this other owner holds the lock
--
-- Remaining readers keep the lock as long as their leases last. The number in the reply changes
-- each second, between 2 and 16, because clients with long round trips need more time.
--
-- Cost: HEXISTS, HLEN, HDEL, DEL, PUBLISH and TIME; ZREM; the cost of `longest_lease`.

local function notify()
    local ears = redis.pcall('PUBLISH', ARGV[3], '1')
    if type(ears) == 'table' then
        return -1
    elseif ears <= tonumber(ARGV[5]) then
        return 0
    end
    return 2 ^ (1 + redis.call('TIME')[1] % 4)
end

-- Removes this owner from the waiting writers. Returns whether the owner was among them. If the ACL
-- denies the key, the script still releases the lock.
local function leave_the_writers()
    local gone = redis.pcall('ZREM', KEYS[2], ARGV[1], 'until:' .. ARGV[1])
    return type(gone) == 'number' and gone > 0
end

local waited = KEYS[2] and leave_the_writers()
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    if waited then
        -- Readers have waited for this writer, and may acquire now.
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
    -- With 0, PEXPIRE deletes the key, because no reader remains.
    redis.pcall('PEXPIRE', KEYS[1], left)
end
return notify()
