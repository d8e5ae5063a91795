-- rate_limiter/available: counts the free permits of a rate limiter.
--
--   KEYS[1]  limiter         hash {rate, interval, type, keepAliveTime}
--   KEYS[2]  value           permits left, of all clients together
--   KEYS[3]  client's value  permits left to this client, if each client has its own
--   KEYS[4]  permits         zset {member: milliseconds}, of all clients together
--   KEYS[5]  client's        zset {member: milliseconds} of this client
--
--   0, 1, 2, …   the number of free permits
--   -1           no client has set a rate
--
-- Redisson's script writes the counter, and removes its TTL. This script writes nothing.
--
-- Cost: HMGET, TIME, GET, ZRANGEBYSCORE and ZCARD.

local it, refused = limiter_at(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
if refused then
    return refused
elseif not it then
    return -1
end

local free
free, refused = free_at(it, milliseconds())
return refused or math.max(free, 0)
