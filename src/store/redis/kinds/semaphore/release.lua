-- semaphore/release: releases the permits of an owner, or withdraws its request.
--
--   KEYS[1]  semaphore  counter of free permits
--   KEYS[2]  holders    hash {owner: permits}
--   KEYS[3]  withdrawn  zset {owner: millisecond since 1970 until which it is rejected}
--   KEYS[4]  longest    hash {owner, permits, since, until, began}
--   ARGV[1]  owner      of the permits
--   ARGV[2]  channel    on which the number of free permits is published
--   ARGV[3]  refused    milliseconds for which a request of this owner may still be in flight
--   ARGV[4]  mode       `back` frees the permits; `forget` keeps them taken, without an owner;
--                       `leave` is for an owner without permits and without a request in flight
--
--   1   the owner had permits, and now has none
--   2   the same, but the server denied the notification
--   0   the owner had no permits; or the semaphore was deleted with its permits
--
-- If the owner has no permits, its later requests are rejected, because they may be old requests in
-- flight. `leave` is the exception. After `forget`, later requests of the owner are also rejected.
--
-- The first writes are HDEL or ZREMRANGEBYSCORE. A full server accepts these writes. After such a
-- write, a full server also accepts the other writes of the script.
--
-- If the owner has no permits, the script costs TIME, ZREMRANGEBYSCORE, ZADD, PEXPIRE and HGET.
--
-- Cost: HGET, HDEL, EXISTS, INCRBY and PUBLISH.

-- Notifies the waiters. Redisson cannot read a negative number.
local function notify(free)
    return free < 0 or type(redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', free))) == 'number'
end

local permits = redis.call('HGET', KEYS[2], ARGV[1])
local back = permits and ARGV[4] ~= 'forget'
-- The ACL may deny EXISTS, and the script must not stop after a write. So EXISTS comes before HDEL.
local exists = back and redis.call('EXISTS', KEYS[1]) == 1
if permits then
    redis.call('HDEL', KEYS[2], ARGV[1])
end

if back then
    if not exists then
        return 0
    end
    local free = redis.pcall('INCRBY', KEYS[1], permits)
    if type(free) == 'table' then
        redis.call('HSET', KEYS[2], ARGV[1], permits)
        return free
    end
    return notify(free) and 1 or 2
end

if ARGV[4] ~= 'leave' then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))
    redis.call('ZADD', KEYS[3], string.format('%.0f', now + ARGV[3]), ARGV[1])
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
end

if redis.call('HGET', KEYS[4], 'owner') == ARGV[1] then
    redis.call('HDEL', KEYS[4], 'owner', 'permits', 'since', 'until')
    local free = tonumber(redis.call('GET', KEYS[1]) or '0') or 0
    if free > 0 then
        notify(free)
    end
end
return permits and 1 or 0
