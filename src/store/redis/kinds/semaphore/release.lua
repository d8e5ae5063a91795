-- semaphore/release: give the permits of an owner back, or withdraw its question.
--
--   KEYS[1]  semaphore  counter of free permits
--   KEYS[2]  holders    hash {owner: permits}
--   KEYS[3]  withdrawn  zset {owner: milliseconds since 1970, until when it is refused}
--   KEYS[4]  patient    hash {owner, permits, since, until, began}
--   ARGV[1]  owner      who gives back
--   ARGV[2]  channel    where to say how many are free
--   ARGV[3]  refused    milliseconds for which its question may still be on its way
--   ARGV[4]  mode       `forget` to leave the permits taken, by nobody that we know;
--                       `leave` when it has none and no question of it is on its way; else
--                       `back`
--
--   1   it had permits, and has none now
--   2   the same, but the server refused to say so on the channel
--   0   it had none; or the semaphore is gone, and they with it
--
-- Who has none is refused from now on, unless it only leaves. So is who leaves its permits
-- taken: nothing else will be asked of it.
--
-- The first to write are HDEL and ZREMRANGEBYSCORE, which a full server allows; it then
-- allows the others as well.
--
-- When there is nothing to give back: TIME, ZREMRANGEBYSCORE, ZADD, PEXPIRE and HGET.
--
-- Time: HGET, HDEL, EXISTS, INCRBY and PUBLISH.

-- Has who waits ask. Redisson's read no number below 0.
local function tell(free)
    return free < 0 or type(redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', free))) == 'number'
end

local permits = redis.call('HGET', KEYS[2], ARGV[1])
local back = permits and ARGV[4] ~= 'forget'
-- What may be refused is asked first: behind the first write nothing may stop it.
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
    return tell(free) and 1 or 2
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
        tell(free)
    end
end
return permits and 1 or 0
