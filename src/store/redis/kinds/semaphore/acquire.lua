-- semaphore/acquire: acquires permits of a semaphore, if enough permits are free.
--
--   KEYS[1]  semaphore  Redisson's counter of free permits; if it does not exist, no permit is free
--   KEYS[2]  holders    hash {owner: permits}, without a TTL
--   KEYS[3]  withdrawn  zset {owner: millisecond since 1970 until which it is rejected}
--   KEYS[4]  longest    hash {owner, permits, since, until, began} of Leasehold's longest waiter:
--                       how many permits it requests, since when it waits, until when permits
--                       are kept for it after its last request, and when the first turn
--                       began; times are milliseconds since 1970. The hash expires two turns
--                       after `began`
--   ARGV[1]  owner      unique to this acquisition
--   ARGV[2]  permits    how many, at least one
--   ARGV[3]  waited     milliseconds for which this owner has waited, if that is long; else empty
--   ARGV[4]  rest       milliseconds for which permits are kept for the longest waiter after its
--                       last request
--   ARGV[5]  turn       milliseconds for which permits are kept for longest waiters. For the next
--                       period of this length, no permits are kept
--   ARGV[6]  channel    on which the script publishes the number of free permits when it stops
--                       keeping permits
--
--   owner    granted. A repeated request finds the permits of this owner, and changes nothing
--   {-1}     too few permits are free
--   {-2}     the counter does not exist: the number of permits is not set
--   {pttl}   enough permits are free, but they are kept for the longest waiter, for at most pttl
--            milliseconds
--
-- An owner may withdraw a request that is still in flight. The script rejects such a request.
--
-- An owner that has waited for long becomes the longest waiter, unless another owner has waited for
-- longer. The script keeps permits for it: other owners of Leasehold get permits only beyond the
-- number that the longest waiter requests. Redisson's clients ignore this rule. The script keeps
-- permits until the longest waiter gets them, or until the turn is over.
--
-- Because of two limits, a longest waiter cannot block the others for ever. An owner does not
-- become the longest waiter if it requests more permits than the sum of the free permits and the
-- permits of Leasehold's clients. The turn is also limited, because some holders may be dead or
-- hold for hours, which a script cannot detect.
--
-- For an owner that has waited for long, a request also costs TIME, HLEN, HVALS of at most a
-- thousand holders, HSET and PEXPIRE. If the owner stops being the longest waiter, the request also
-- costs HDEL and PUBLISH.
--
-- While there is a longest waiter, a request also costs TIME, and the grant of this waiter DEL.
--
-- Cost: HGET, ZSCORE, GET, HMGET, HSET and DECRBY.

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
local is_longest_waiter = owner == ARGV[1]

local now = 0
if began or ARGV[3] ~= '' then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- `began` is ignored if another program wrote it, or if the clock was set back.
began = tonumber(began or nil)
if not (began and began <= now) then
    owner, began = false, now
end

-- Whether this owner may become the longest waiter.
local waits_since = ARGV[3] ~= '' and now - ARGV[3]
local may_be_longest_waiter = waits_since and now < began + turn

local permits, pttl = 0, -1
if owner and not is_longest_waiter then
    pttl = math.min(tonumber(rest or nil) or 0, began + turn) - now
    local other_is_first = not waits_since or waits_since >= (tonumber(since or nil) or 0)
    if pttl > 0 and other_is_first then
        permits, may_be_longest_waiter = tonumber(left or nil) or 0, false
    end
end

local function whole(number)
    return string.format('%.0f', number)
end

-- Returns whether enough permits would be free after all of Leasehold's holders had released.
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

-- Records this owner as the longest waiter.
local function record_longest_waiter()
    local named = redis.pcall('HSET', KEYS[4], 'owner', ARGV[1], 'permits', ARGV[2], 'since',
        whole(waits_since), 'until', whole(now + ARGV[4]), 'began', whole(began))
    local left_to_it = whole(began + 2 * turn - now)
    if type(named) == 'number' and type(redis.pcall('PEXPIRE', KEYS[4], left_to_it)) ~= 'number' then
        -- Without a TTL, the record would stay for ever.
        redis.pcall('DEL', KEYS[4])
    end
end

-- Stops keeping permits for this owner, and announces the free permits to the other waiters.
local function remove_longest_waiter()
    redis.pcall('HDEL', KEYS[4], 'owner', 'permits', 'since', 'until')
    if free > 0 then
        redis.pcall('PUBLISH', ARGV[6], whole(free))
    end
end

if free < wanted or free - permits < wanted then
    if may_be_longest_waiter and may_be_free() then
        record_longest_waiter()
    elseif is_longest_waiter and waits_since then
        remove_longest_waiter()
    end
    return {free >= wanted and pttl or is_set and -1 or -2}
end

redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local taken = redis.pcall('DECRBY', KEYS[1], ARGV[2])
if type(taken) == 'table' then
    redis.call('HDEL', KEYS[2], ARGV[1])
    return taken
end
if is_longest_waiter then
    redis.pcall('DEL', KEYS[4])
end
return ARGV[1]
