-- rate_limiter/release: releases permits that were acquired and not used.
--
--   KEYS[1]  limiter         hash {rate, interval, type, keepAliveTime}
--   KEYS[2]  value           permits left, of all clients together
--   KEYS[3]  client's value  permits left to this client, if each client has its own
--   KEYS[4]  permits         zset {member: milliseconds}, of all clients together
--   KEYS[5]  client's        zset {member: milliseconds} of this client
--   ARGV[1]  member          of the acquired permits
--   ARGV[2]  rest            member of the used permits, which replaces ARGV[1]; empty if no permit
--                            was used
--   ARGV[3]  unused          the number of unused permits
--
--   0   the member does not exist: it has left the window, or was released before
--   1   the unused permits are free
--
-- Redisson's release keeps the member, so the released permits become free a second time when the
-- member leaves the window.
--
-- Cost: HMGET, ZSCORE; ZREM, ZADD, GET, SET and PTTL if the member exists.

local it, refused = limiter_at(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
if refused then
    return refused
end

local score = it and redis.call('ZSCORE', it.permits, ARGV[1])
if not score then
    return 0
end

local value, _, there
value, refused, there = counter(it)
if refused then
    return refused
end

redis.call('ZREM', it.permits, ARGV[1])
if ARGV[2] ~= '' then
    redis.call('ZADD', it.permits, score, ARGV[2])
end
if there then
    redis.call('SET', it.value, whole(math.min(value + ARGV[3], it.rate)))
end
keep(it)
return 1
