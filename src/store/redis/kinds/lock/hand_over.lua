-- lock/hand_over: removes the hold of an owner, and passes the lock on.
--
-- Also withdraws an acquisition: its grant, or its queue entry.
--
--   KEYS[1]  lock      hash {owner: hold count}
--   KEYS[2]  queue     zset of entries {owner: microsecond of its arrival}; 0 if a yield
--                      window passed this entry over: the next release is for it
--   KEYS[3]  yielded   string: millisecond of the last yield window; before the first one,
--                      of the first release with an entry
--   ARGV[1]  owner     the owner that releases
--   ARGV[2]  channel   of Redisson: all waiters subscribe to it
--   ARGV[3]  queuers   channel to which all queued waiters also subscribe
--   ARGV[4]  waiters   prefix of the channel of one waiting client
--   ARGV[5]  reserve   milliseconds of a reservation
--   ARGV[6]  rest      milliseconds until an unused queue, or record of a window, expires
--   ARGV[7]  long      milliseconds of waiting after which a waiter seldom asks by itself
--   ARGV[8]  later     milliseconds until the third one asks: both before it may be dead
--
--   0                      was held, and is free or reserved
--   -1                     was held, is free, but the server refused to announce it
--   2, 4, 8 or 16          was held, is free. The queue is empty, but other clients listen:
--                          they may ask first for this many milliseconds
--   {2, 4, 8 or 16}        was held, is free: a yield window of this many milliseconds.
--                          Then the first in the queue asks
--   {}                     not held by this owner, nor by anybody
--   {pttl, owner, count}   not held by this owner, but by another
--
-- Messages:
--
--   channel          0     free: ask.   00: free, and the first in the queue was notified
--   a client's own   n     ask for this lock in n milliseconds
--
-- A reservation is not a grant: the notified client sends a request, and finds itself as the
-- holder. An entry whose client does not listen is dropped, at most 100 entries for each release.
--
-- A yield window is for clients without a queue entry. It opens if the last window was fifty times
-- its length ago, or five times if more clients listen to Redisson's channel than queue.
--
-- Time: HDEL, EXISTS, ZPOPMIN, NUMSUB, TIME, GET, PUBLISH, HSET and PEXPIRE.

-- From eight subscribers on, Valkey 9 returns an address instead of their number.
local MOST_LISTENERS = 2 ^ 32

-- The first entry, which was removed from the queue, and its arrival.
local place, came

-- Returns the client of an owner of this library, or nothing.
local function client_of(owner)
    return #owner <= 64 and string.match(owner, '^([%w%-]+):%d+$')
end

local function channel_of(owner)
    return ARGV[4] .. (client_of(owner) or '?')
end

-- Announces that the lock is free. Even if this fails, the hold has ended.
local function announce(words)
    return type(redis.pcall('PUBLISH', ARGV[2], words)) == 'table' and -1 or 0
end

-- Makes the client of an owner send a request. Returns whether the server allowed it.
local function notify(owner, millis)
    return type(redis.pcall('PUBLISH', channel_of(owner), millis)) == 'number'
end

-- Removes the first entry whose client listens. Returns whether clients without an entry wait.
local function take_first()
    for _ = 1, 100 do
        local first = redis.call('ZPOPMIN', KEYS[2])
        place, came = first[1], first[2]
        local listen = redis.call('PUBSUB', 'NUMSUB', ARGV[2], ARGV[3], channel_of(place or ''))
        local listens = place and listen[6] ~= 0 and client_of(place)
        if not place or listens and place ~= ARGV[1] then
            return listen[2] > listen[4] and listen[2] < MOST_LISTENERS
        end
    end
    place = nil
end

-- Puts the entry back into the queue, which may have become empty without it.
local function put_back(score)
    redis.call('ZADD', KEYS[2], score, place)
    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[6])) == 'table' then
        redis.call('ZREM', KEYS[2], place)
    end
end

-- The notified client may be dead. So the next two clients are notified to send a request later, if
-- they and the first one have waited for long.
local function warn(from, now)
    local long_ago = (now - ARGV[7]) * 1000
    if tonumber(came) > long_ago then
        return
    end
    local behind = redis.call('ZRANGE', KEYS[2], from, from + 1, 'WITHSCORES')
    for nth, millis in ipairs({ARGV[5], ARGV[8]}) do
        local owner, since = behind[2 * nth - 1], tonumber(behind[2 * nth])
        if owner and since and since <= long_ago then
            notify(owner, millis)
        end
    end
end

local function record(now)
    redis.call('SET', KEYS[3], string.format('%.0f', now), 'PX', ARGV[6])
end

-- Returns whether a window of this length is due.
local function is_due(window, outsiders, now)
    if tonumber(came) == 0 then
        return false
    end
    local last = tonumber(redis.call('GET', KEYS[3]) or nil)
    -- A time in the future does not count: the clock was set back, or the server was replaced.
    if last and last <= now then
        return now - last >= window * (outsiders and 5 or 50)
    end
    record(now)
    -- The record of the last window expires during long holds.
    return outsiders or now - came / 1000 >= tonumber(ARGV[6])
end

local function yield(window, now)
    record(now)
    put_back('0')
    announce(notify(place, window) and '00' or '0')
    warn(1, now)
    return {window}
end

local function reserve(now)
    redis.call('HSET', KEYS[1], place, '1')
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
    -- All queued waiters listen to this channel, too.
    local answer = notify(place, 0) and 0 or announce('0')
    warn(0, now)
    return answer
end

local function pass_on()
    local outsiders = take_first()
    local time = (place or outsiders) and redis.call('TIME')
    -- Longer windows are for clients with longer round trips.
    local window = time and 2 ^ (1 + time[1] % 4)
    if not place then
        redis.call('DEL', KEYS[3])
        local answer = announce('0')
        return answer == 0 and window or answer
    end
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if is_due(window, outsiders, now) then
        return yield(window, now)
    end
    return reserve(now)
end

if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    local queued = redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1
    local pttl = redis.call('PTTL', KEYS[1])
    if pttl ~= -2 then
        return holder(KEYS[1], pttl)
    end
    if queued then
        -- The withdrawn owner may have been the only one that was notified of the free lock.
        announce('0')
    end
    return {}
end

if redis.pcall('EXISTS', KEYS[1]) ~= 0 then
    -- Another program has written a field, or the server denies EXISTS.
    return announce('0')
end

local allowed, answer = pcall(pass_on)
if allowed then
    return answer
end
-- The server rejected a command. The lock is free for all, and the entry stays.
if place then
    redis.pcall('HDEL', KEYS[1], place)
    pcall(put_back, came)
end
return announce('0')
