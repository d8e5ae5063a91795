-- semaphore/acquire: take permits from a semaphore, if it has them.
--
--   KEYS[1]  semaphore  counter of free permits, Redisson's; without it there are none
--   KEYS[2]  holders    hash {owner: permits}, without an end
--   KEYS[3]  withdrawn  zset {owner: milliseconds since 1970, until when it is refused}
--   KEYS[4]  patient    hash {owner, permits, since, until, began}: who of ours waits for
--                       longest, for how many, since when, until when they are left to it if
--                       it asks no more, and since when permits are left to anybody; all in
--                       milliseconds since 1970. It ends two turns after it began
--   ARGV[1]  owner      who asks, unique to this acquisition
--   ARGV[2]  permits    how many, at least one
--   ARGV[3]  waited     milliseconds that it has waited, if that is long; else empty
--   ARGV[4]  rest       milliseconds for which permits are left to it when it asks no more
--   ARGV[5]  turn       milliseconds for which permits are left to anybody; for as long
--                       after that they are left to nobody
--   ARGV[6]  channel    where to say how many are free, when they are left to it no more
--
--   owner    granted. The same owner asking again has them already: nothing changes
--   {-1}     there are too few
--   {-2}     there is no counter: nobody has said how many there are to be
--   {pttl}   there are enough, but they are left to one who has waited for longer, for at
--            most so many milliseconds
--
-- An owner that has withdrawn is refused: its question was on its way all the time.
--
-- Who has waited for long, and asks in vain, becomes the patient one unless one who has
-- waited for longer is. All others of ours leave it what it wants, until it has it or the
-- turn is over. Redisson's do not know of it. One who wants more than are free and ours have
-- together must not keep the others out: it may wait for ever. So it may, too, when some of
-- ours are dead, or hold for hours, which nobody can know: therefore the turn.
--
-- For one who has waited for long, in vain: TIME, HLEN, HVALS of a thousand at most, HSET
-- and PEXPIRE besides; HDEL and PUBLISH when it is the patient one no more.
--
-- TIME besides when somebody is patient, and DEL for that one when it has them.
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

-- Others may have written something else, and clocks are set back.
began = tonumber(began or nil)
if not (began and began <= now) then
    owner, began = false, now
end

-- Whether one who has waited for so long may be the patient one.
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

-- Whether as many may be free at once, as far as we can see.
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

-- Notes who waits longest, in vain.
local function be_patient()
    local named = redis.pcall('HSET', KEYS[4], 'owner', ARGV[1], 'permits', ARGV[2], 'since',
        whole(waits_since), 'until', whole(now + ARGV[4]), 'began', whole(began))
    local left_to_it = whole(began + 2 * turn - now)
    if type(named) == 'number' and type(redis.pcall('PEXPIRE', KEYS[4], left_to_it)) ~= 'number' then
        -- Without an end it must not stay.
        redis.pcall('DEL', KEYS[4])
    end
end

-- Leaves to the others what was left to it.
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
