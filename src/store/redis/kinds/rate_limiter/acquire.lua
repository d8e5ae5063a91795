-- rate_limiter/acquire: takes permits from a rate limiter, if enough are free.
--
--   KEYS[1]  limiter         hash {rate, interval, type, keepAliveTime}
--   KEYS[2]  value           permits left, of all clients together
--   KEYS[3]  client's value  the same of this client, if each client has its own
--   KEYS[4]  permits         zset {member: milliseconds}, of all clients together
--   KEYS[5]  client's        the same of this client
--   ARGV[1]  permits         how many, at least one
--   ARGV[2]  member          16 random bytes of this request, and the number of permits
--
--   {0}            granted. A repeated request changes nothing
--   {wait, ahead}  too few are free; there are enough after this number of milliseconds. The newest
--                  member was `ahead` milliseconds ahead of the server's clock
--   {-1, 0}        no client has set a rate
--   {-2, rate}     more than the rate
--
-- A member may be ahead of the server's clock, if this clock was set back or its client has another
-- clock. Its score is set to the current time, because otherwise it would stay for longer than the
-- window.
--
-- ZREMRANGEBYSCORE if permits have left the window. A refusal is ZRANGEBYSCORE twice instead of
-- SET and ZADD.
--
-- Time: HMGET, ZSCORE, TIME, GET, ZRANGEBYSCORE, ZCARD, SET, ZADD and PTTL.

local it, refused = limiter_at(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
if refused then
    return refused
elseif not it then
    return {-1, 0}
end

local wanted = tonumber(ARGV[1])
if redis.call('ZSCORE', it.permits, ARGV[2]) then
    return {0}
elseif wanted > it.rate then
    return {-2, it.rate}
end

local now = milliseconds()
local free
free, refused = free_at(it, now)
if refused then
    return refused
end

if free >= wanted then
    redis.call('SET', it.value, whole(free - wanted))
    if it.old > 0 then
        redis.call('ZREMRANGEBYSCORE', it.permits, '-inf', it.gone)
    end
    redis.call('ZADD', it.permits, whole(now), ARGV[2])
    keep(it)
    return {0}
end

local ahead, latest = redis.call('ZRANGEBYSCORE', it.permits, '(' .. whole(now), '+inf',
    'WITHSCORES'), now
for i = 1, #ahead, 2 do
    latest = tonumber(ahead[i + 1])
    redis.call('ZADD', it.permits, whole(now), ahead[i])
end

-- Counts members, from the oldest one on, until enough permits would be free.
local missing, from, score = wanted - free, 0, now
while missing > 0 do
    local some = redis.call('ZRANGEBYSCORE', it.permits, '(' .. it.gone, '+inf', 'WITHSCORES',
        'LIMIT', from, 100)
    for i = 1, #some, 2 do
        local permits = permits_of(some[i])
        if not permits then
            return damaged(it.permits)
        elseif missing > 0 then
            missing, score = missing - permits, tonumber(some[i + 1])
        end
    end
    -- The counter lives longer than the window. If no member is left, the whole rate is free.
    if #some == 0 then
        missing = 0
    end
    from = from + 100
end

keep(it)
return {score + it.interval - now, latest - now}
