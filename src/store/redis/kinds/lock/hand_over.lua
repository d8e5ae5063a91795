-- lock/hand_over: take the hold from its owner, and pass the lock on.
--
-- Also withdraws an acquisition: its grant, or its place in the queue.
--
--   KEYS[1]  lock      hash {owner: hold count}
--   KEYS[2]  queue     zset of places {owner: microsecond of its arrival}; 0 if a yield
--                      window passed this place over: the next release is for it
--   KEYS[3]  yielded   string: millisecond of the last yield window; before the first one,
--                      of the first release for a place
--   ARGV[1]  owner     the owner that releases
--   ARGV[2]  channel   of Redisson: all who wait subscribe to it
--   ARGV[3]  queuers   all who queue subscribe to this channel as well
--   ARGV[4]  waiters   prefix of the channel of one waiting client
--   ARGV[5]  reserve   milliseconds of a reservation
--   ARGV[6]  rest      milliseconds until an unused queue, or record of a window, expires
--   ARGV[7]  long      milliseconds of waiting after which a waiter seldom asks by itself
--   ARGV[8]  later     milliseconds until the third looks: both before it may be dead
--
--   0                      was held, and is free or reserved
--   -1                     was held, is free, but the server refused to announce it
--   2, 4, 8 or 16          was held, is free. Nobody queues, but others listen: they may
--                          ask first for this many milliseconds
--   {2, 4, 8 or 16}        was held, is free: a yield window of this many milliseconds.
--                          Then the first in the queue asks
--   {}                     not held by this owner, nor by anybody
--   {pttl, owner, count}   not held by this owner, but by another
--
-- What it publishes:
--
--   channel          0     free: ask.   00: free, and the first in the queue was notified
--   a client's own   n     ask for this lock in n milliseconds
--
-- A reservation grants nothing: the notified client asks, and finds the lock its own. A
-- place is dropped if its client does not listen, at most 100 for each release.
--
-- A yield window serves those who do not queue. It opens when the last one is fifty times
-- its length ago; five times, if more clients listen to Redisson's channel than queue.
--
-- Time: HDEL, EXISTS, ZPOPMIN, NUMSUB, TIME, GET, PUBLISH, HSET and PEXPIRE.

-- From eight subscribers on Valkey 9 returns an address in place of their number.
local MOST_LISTENERS = 2 ^ 32

-- The first in the queue, which has left it, and when it came.
local place, came

-- The client of an owner of ours, or nothing.
local function client_of(owner)
    return #owner <= 64 and string.match(owner, '^([%w%-]+):%d+$')
end

local function channel_of(owner)
    return ARGV[4] .. (client_of(owner) or '?')
end

-- Announces that the lock is free. The hold is gone, whatever becomes of the message.
local function announce(words)
    return type(redis.pcall('PUBLISH', ARGV[2], words)) == 'table' and -1 or 0
end

-- Has the client of an owner ask. Returns whether the server allowed to notify it.
local function notify(owner, millis)
    return type(redis.pcall('PUBLISH', channel_of(owner), millis)) == 'number'
end

-- Takes the first place whose client listens. Returns whether others wait who do not queue.
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

-- Puts the place back into the queue, which may have ended with it.
local function put_back(score)
    redis.call('ZADD', KEYS[2], score, place)
    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[6])) == 'table' then
        redis.call('ZREM', KEYS[2], place)
    end
end

-- The client that is to ask may be dead. The two behind it look, if they have waited for
-- long; they came after it.
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

-- Whether a window of this length is due.
local function is_due(window, outsiders, now)
    if tonumber(came) == 0 then
        return false
    end
    local last = tonumber(redis.call('GET', KEYS[3]) or nil)
    -- One from the future is no record: the clock has gone back, or the server is another one.
    if last and last <= now then
        return now - last >= window * (outsiders and 5 or 50)
    end
    record(now)
    -- The record of the last one expires while others hold for long.
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
    -- All who queue listen to this channel, too.
    local answer = notify(place, 0) and 0 or announce('0')
    warn(0, now)
    return answer
end

local function pass_on()
    local outsiders = take_first()
    local time = (place or outsiders) and redis.call('TIME')
    -- Longer windows are for clients that are farther away.
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
        -- The one that leaves may have been the only one notified that the lock is free.
        announce('0')
    end
    return {}
end

if redis.pcall('EXISTS', KEYS[1]) ~= 0 then
    -- Somebody else has put a field there, or the server refuses to look.
    return announce('0')
end

local allowed, answer = pcall(pass_on)
if allowed then
    return answer
end
-- The server refuses a command. The lock is free for all, and the place stays.
if place then
    redis.pcall('HDEL', KEYS[1], place)
    pcall(put_back, came)
end
return announce('0')
