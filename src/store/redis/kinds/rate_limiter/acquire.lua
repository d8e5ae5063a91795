-- rate_limiter/acquire: acquires permits of a rate limiter, if enough permits are free.
--
--   KEYS[1]  limiter         hash {rate, interval, type, keepAliveTime}
--   KEYS[2]  value           permits left, of all clients together
--   KEYS[3]  client's value  permits left to this client, if each client has its own
--   KEYS[4]  permits         zset {member: milliseconds}, of all clients together
--   KEYS[5]  client's        zset {member: milliseconds} of this client
--   ARGV[1]  permits         how many, at least one
--   ARGV[2]  member          16 random bytes of this request, and the number of permits
--
--   {0}            granted. A repeated request changes nothing
--   {wait, ahead}  too few permits are free; enough are free after `wait` milliseconds. The newest
--                  member was `ahead` milliseconds ahead of the server's clock
--   {-1, 0}        no client has set a rate
--   {-2, rate}     more permits were requested than the rate has
--
-- A member is ahead of the server's clock if this clock was set back, or if a client wrote the
-- member by another clock. The script sets the score of such a member to the current time, because
-- the member would otherwise stay for longer than the window.
--
-- If permits have left the window, a grant also costs ZREMRANGEBYSCORE. A rejected request costs
-- two ZRANGEBYSCORE instead of SET and ZADD.
--
-- Cost: HMGET, ZSCORE, TIME, GET, ZRANGEBYSCORE, ZCARD, SET, ZADD and PTTL.

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

-- Adds up the permits of the members, from the oldest member on, until they are enough. `score` is
-- then the time of the last of these members.
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
    -- There are no more members. When the last member has left the window, the whole rate is free,
    -- whatever the counter says.
    if #some == 0 then
        missing = 0
    end
    from = from + 100
end

keep(it)
return {score + it.interval - now, latest - now}
