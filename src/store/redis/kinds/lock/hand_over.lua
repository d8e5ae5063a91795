-- lock/hand_over: removes the hold of an owner, and passes the lock to the next waiter.
--
-- Also withdraws an acquisition: its grant, or its queue entry.
--
--   KEYS[1]  lock      hash {owner: hold count}
--   KEYS[2]  queue     zset of entries {owner: microsecond of its arrival}. If a yield window
--                      was opened instead of a reservation for an entry, the entry gets the
--                      score 0, and the next release reserves the lock for this entry
--   KEYS[3]  yielded   string: millisecond of the last yield window; before the first window,
--                      millisecond of the first release that found an entry
--   ARGV[1]  owner     the owner that releases
--   ARGV[2]  channel   Redisson's channel, to which all waiters subscribe
--   ARGV[3]  queuers   channel to which all queued waiters also subscribe
--   ARGV[4]  waiters   prefix of the channel of one waiting client
--   ARGV[5]  reserve   milliseconds of a reservation
--   ARGV[6]  rest      milliseconds until an unused queue, or KEYS[3], expires
--   ARGV[7]  long      a waiter that has waited for this many milliseconds seldom sends a
--                      request without a notification
--   ARGV[8]  later     milliseconds until the third waiter sends a request, because both
--                      waiters before it may be dead
--
--   0                      the hold is removed, and the lock is free or reserved
--   -1                     the lock is free or reserved, but the server denied the announcement
--   2, 4, 8 or 16          the lock is free. The queue is empty, but clients without an entry wait.
--                          For this many ms, the releasing client lets them acquire first
--   {2, 4, 8 or 16}        the lock is free: a yield window of this many milliseconds begins.
--                          After it, the first client in the queue sends a request
--   {}                     this owner did not hold the lock, and no owner holds it
--   {pttl, owner, count}   this owner did not hold the lock, and this other owner holds it
--
-- Messages:
--
--   channel          0     the lock is free: send a request
--   channel          00    the lock is free, and the first client in the queue was notified
--   a client's own   n     send a request for this lock in n milliseconds
--
-- A reservation is not a grant: the notified client sends a request, and finds its own owner as the
-- holder. A release removes at most 100 entries of clients that no longer listen.
--
-- In a yield window, clients without a queue entry can acquire. A window of n ms opens if the last
-- window was at least 50 * n ms ago. If more clients listen to Redisson's channel than are queued,
-- 5 * n ms are enough.
--
-- Cost: HDEL, EXISTS, ZPOPMIN, NUMSUB, TIME, GET, PUBLISH, HSET and PEXPIRE.

-- A greater number is not a number of subscribers. If a channel has eight or more subscribers,
-- Valkey 9 returns a memory address instead of the number.
local MOST_LISTENERS = 2 ^ 32

-- The entry that `take_first` has removed from the queue, and its score.
local place, came

-- Returns the client id in an owner of Leasehold, or nothing for another owner.
local function client_of(owner)
    return #owner <= 64 and string.match(owner, '^([%w%-]+):%d+$')
end

local function channel_of(owner)
    return ARGV[4] .. (client_of(owner) or '?')
end

-- Announces that the lock is free. Returns -1 if the server denied the message, which does not undo
-- the release.
local function announce(words)
    return type(redis.pcall('PUBLISH', ARGV[2], words)) == 'table' and -1 or 0
end

-- Notifies the client of an owner to send a request after `millis`. Returns whether the server
-- allowed the message.
local function notify(owner, millis)
    return type(redis.pcall('PUBLISH', channel_of(owner), millis)) == 'number'
end

-- Removes entries from the front of the queue, up to and including the first entry whose client
-- listens, and stores that entry in `place`. Returns whether clients without an entry wait.
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

-- Puts `place` back into the queue, and sets the TTL of the queue. If `place` was the only entry,
-- Redis has deleted the queue with its TTL in between.
local function put_back(score)
    redis.call('ZADD', KEYS[2], score, place)
    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[6])) == 'table' then
        redis.call('ZREM', KEYS[2], place)
    end
end

-- The client of `place` was notified, but may be dead. If it has waited for long, the script also
-- notifies those of the next two clients in the queue that have waited for long, too. The second
-- client then sends a request after ARGV[5] milliseconds, and the third after ARGV[8].
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

-- Returns whether a window of this length is due. If the score of `place` is 0, a window has
-- already delayed this entry, so no other window is due.
local function is_due(window, outsiders, now)
    if tonumber(came) == 0 then
        return false
    end
    local last = tonumber(redis.call('GET', KEYS[3]) or nil)
    -- A recorded time in the future is ignored, because the clock was set back, or the server was
    -- replaced.
    if last and last <= now then
        return now - last >= window * (outsiders and 5 or 50)
    end
    record(now)
    -- There was no valid record. A window is due if clients without an entry wait. It is also due
    -- if the first client has waited for as long as a record lasts, because the record may have
    -- expired during long holds.
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
    -- If the server denies the channel of this client, the script uses Redisson's channel instead.
    -- All queued waiters listen to this channel, too.
    local answer = notify(place, 0) and 0 or announce('0')
    warn(0, now)
    return answer
end

local function pass_on()
    local outsiders = take_first()
    local time = (place or outsiders) and redis.call('TIME')
    -- The length of a window changes each second, between 2 and 16 ms, because clients with long
    -- round trips need long windows.
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
        -- The client of the withdrawn owner may have been the only notified client.
        announce('0')
    end
    return {}
end

if redis.pcall('EXISTS', KEYS[1]) ~= 0 then
    -- Another program has written a field to the hash, or the server denies EXISTS. In both cases,
    -- the script makes no reservation, and notifies all waiters.
    return announce('0')
end

local allowed, answer = pcall(pass_on)
if allowed then
    return answer
end
-- The server rejected a command in `pass_on`. The lock stays free for all clients, and the entry
-- goes back into the queue.
if place then
    redis.pcall('HDEL', KEYS[1], place)
    pcall(put_back, came)
end
return announce('0')
