-- semaphore/acquire: takes permits from a semaphore, if enough are free.
--
--   KEYS[1]  semaphore  Redisson's counter of free permits; without it there are none
--   KEYS[2]  holders    hash {owner: permits}, without a TTL
--   KEYS[3]  withdrawn  zset {owner: milliseconds since 1970, until when it is rejected}
--   KEYS[4]  patient    hash {owner, permits, since, until, began}: the longest waiter of this
--                       library, how many permits it requests, since when, until when they
--                       are left to it after its last request, and when the first turn began;
--                       all in milliseconds since 1970. It expires two turns after it began
--   ARGV[1]  owner      of this acquisition, which no other one has
--   ARGV[2]  permits    how many, at least one
--   ARGV[3]  waited     milliseconds that it has waited, if that is long; else empty
--   ARGV[4]  rest       milliseconds for which permits are left to it after its last request
--   ARGV[5]  turn       milliseconds for which permits are left to the longest waiters; for as
--                       long after that, they are left to nobody
--   ARGV[6]  channel    on which the number of free permits is published when they are no
--                       longer left to it
--
--   owner    granted. A repeated request finds the permits and changes nothing
--   {-1}     too few are free
--   {-2}     there is no counter: the number of permits was never set
--   {pttl}   enough are free, but they are left to one that has waited for longer, for at
--            most this many milliseconds
--
-- If the owner has withdrawn, its request is rejected, because it is an old one that was still in
-- flight.
--
-- An owner that has waited for long becomes the longest waiter ("patient"), unless an earlier one
-- is. All other owners of this library leave these permits to it, until it has them or its turn is
-- over. Redisson's clients do not. If it requests more than the free permits and those of this
-- library's holders together, it must not block the others, because it may wait for ever. It may
-- also wait for ever if some holders are dead, or hold for hours, which no script can know. So its
-- turn is limited.
--
-- For an owner that has waited for long, also TIME, HLEN, HVALS of a thousand at most, HSET and
-- PEXPIRE. HDEL and PUBLISH when it is no longer the longest waiter.
--
-- With a longest waiter, also TIME, and DEL when it gets its permits.
--
-- Time: HGET, ZSCORE, GET, HMGET, HSET and DECRBY.

if redis.call('HGET', KEYS[2], ARGV[1]) then
    return ARGV[1]
elseif redis.call('ZSCORE', KEYS[3], ARGV[1]) then
    return {-1}
end

local free, refused, is_set = number_at(KEYS[1])
if refused then
    return refused
end

local wanted, turn = tonumber(ARGV[2]), tonumber(ARGV[5])
local owner, left, since, rest, began = unpack(redis.call('HMGET', KEYS[4], 'owner', 'permits',
    'since', 'until', 'began'))
local is_patient = owner == ARGV[1]

local now = 0
if began or ARGV[3] ~= '' then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Another program may have written the hash, or the clock was set back.
began = tonumber(began or nil)
if not (began and began <= now) then
    owner, began = false, now
end

-- Whether this owner may become the longest waiter.
local waits_since = ARGV[3] ~= '' and now - ARGV[3]
local may_be_patient = waits_since and now < began + turn

local permits, pttl = 0, -1
if owner and not is_patient then
    pttl = math.min(tonumber(rest or nil) or 0, began + turn) - now
    local other_is_first = not waits_since or waits_since >= (tonumber(since or nil) or 0)
    if pttl > 0 and other_is_first then
        permits, may_be_patient = tonumber(left or nil) or 0, false
    end
end

local function whole(number)
    return string.format('%.0f', number)
end

-- Returns whether this number of permits can be free at once, judged by the known holders.
local function may_be_free()
    local all = free
    if redis.call('HLEN', KEYS[2]) > 1000 then
        return false
    end
    for _, taken in ipairs(redis.call('HVALS', KEYS[2])) do
        all = all + (tonumber(taken) or 0)
    end
    return all >= wanted
end

-- Notes this owner as the longest waiter.
local function be_patient()
    local named = redis.pcall('HSET', KEYS[4], 'owner', ARGV[1], 'permits', ARGV[2], 'since',
        whole(waits_since), 'until', whole(now + ARGV[4]), 'began', whole(began))
    local left_to_it = whole(began + 2 * turn - now)
    if type(named) == 'number' and type(redis.pcall('PEXPIRE', KEYS[4], left_to_it)) ~= 'number' then
        -- Without a TTL it must not stay.
        redis.pcall('DEL', KEYS[4])
    end
end

-- Leaves the permits to all waiters again.
local function be_patient_no_more()
    redis.pcall('HDEL', KEYS[4], 'owner', 'permits', 'since', 'until')
    if free > 0 then
        redis.pcall('PUBLISH', ARGV[6], whole(free))
    end
end

if free < wanted or free - permits < wanted then
    if may_be_patient and may_be_free() then
        be_patient()
    elseif is_patient and waits_since then
        be_patient_no_more()
    end
    return {free >= wanted and pttl or is_set and -1 or -2}
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
