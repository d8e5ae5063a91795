-- semaphore/acquire: take permits from a semaphore, if it has them.
--
--   KEYS[1]  semaphore  counter of free permits, Redisson's; without it there are none
--   KEYS[2]  holders    hash {owner: permits}, without an end
--   KEYS[3]  withdrawn  zset {owner: milliseconds since 1970, until when it is refused}
--   KEYS[4]  patient    hash {owner, permits, since}: who of ours waits for longest, for how
--                       many, since when in milliseconds; lives for some seconds
--   ARGV[1]  owner      who asks, unique to this acquisition
--   ARGV[2]  permits    how many, at least one
--   ARGV[3]  waited     milliseconds that it has waited, if that is long; else empty
--   ARGV[4]  rest       milliseconds for which permits are left to it when it asks no more
--
--   owner    granted. The same owner asking again has them already: nothing changes
--   {-1}     there are too few
--   {pttl}   there are enough, but they are left to one who has waited for longer, for at
--            most so many milliseconds
--
-- An owner that has withdrawn is refused: its question was on its way all the time.
--
-- Who has waited for long, and asks in vain, becomes the patient one unless one who has
-- waited for longer is. All others of ours leave it what it wants, until it has it.
-- Redisson's do not know of it. One who wants more than are free and ours have together
-- must not keep the others out: it may wait for ever.
--
-- For one who has waited for long, in vain: TIME, HLEN, HVALS of a thousand at most, HSET
-- and PEXPIRE besides.
--
-- Time: HGET, ZSCORE, GET, HMGET, HSET and DECRBY; DEL for the patient one.

if redis.call('HGET', KEYS[2], ARGV[1]) then
    return ARGV[1]
elseif redis.call('ZSCORE', KEYS[3], ARGV[1]) then
    return {-1}
end

-- Whether as many may be free at once, as far as we can see.
local function may_be_free(free, wanted)
    if free >= wanted or redis.call('HLEN', KEYS[2]) > 1000 then
        return true
    end
    for _, permits in ipairs(redis.call('HVALS', KEYS[2])) do
        free = free + (tonumber(permits) or 0)
    end
    return free >= wanted
end

-- Notes who waits longest, in vain.
local function be_patient(since)
    local named = redis.pcall('HSET', KEYS[4], 'owner', ARGV[1], 'permits', ARGV[2],
        'since', string.format('%.0f', since))
    if type(named) == 'number' and type(redis.pcall('PEXPIRE', KEYS[4], ARGV[4])) ~= 'number' then
        -- Without an end it must not stay.
        redis.pcall('DEL', KEYS[4])
    end
end

local free, refused = number_at(KEYS[1])
if refused then
    return refused
end

local wanted = tonumber(ARGV[2])
local patient = redis.call('HMGET', KEYS[4], 'owner', 'permits', 'since')
local is_patient = patient[1] == ARGV[1]
local left, since = 0, nil
if ARGV[3] ~= '' then
    local now = redis.call('TIME')
    since = now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[3]
end
if patient[1] and not is_patient then
    -- Others may have written something else.
    left = tonumber(patient[2]) or 0
    local patient_since = tonumber(patient[3]) or 0
    if since and since < patient_since then
        left = 0
    elseif since then
        since = nil
    end
end

if free - left < wanted then
    if since and may_be_free(free, wanted) then
        be_patient(since)
    elseif since and is_patient then
        redis.pcall('DEL', KEYS[4])
    end
    return {free >= wanted and redis.call('PTTL', KEYS[4]) or -1}
end

redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local taken = redis.pcall('DECRBY', KEYS[1], ARGV[2])
if type(taken) == 'table' then
    redis.call('HDEL', KEYS[2], ARGV[1])
    return taken
end
if is_patient then
    redis.pcall('DEL', KEYS[4])
end
return ARGV[1]
