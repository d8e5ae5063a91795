-- lock/hand_over: take the hold from its owner, and reserve the lock for the next one.
--
-- Also withdraws an acquisition: its grant, or its place in the queue.
--
--   KEYS[1]  lock      hash {owner: hold count}
--   KEYS[2]  queue     zset of places {owner: microseconds when it came}. A place of one
--                      who polls has 2^53 less. Beside them two moments, negated: `gap`
--                      when the lock was last left to who does not queue, `turn` when it
--                      was last reserved for one who polls: odd, until a release since
--                      then has gone to the first who listens
--   ARGV[1]  owner     who gives back
--   ARGV[2]  channel   where everybody listens who waits
--   ARGV[3]  queuers   where those listen, beside it, who queue
--   ARGV[4]  waiters   what the channel of one waiting client begins with
--   ARGV[5]  reserve   milliseconds of a reservation for one who listens
--   ARGV[6]  turn      milliseconds of a reservation for one who polls, and as long
--                      again until the next one
--   ARGV[7]  long      milliseconds of waiting after which the one behind is told to look
--   ARGV[8]  soon      in so many milliseconds
--   ARGV[9]  later     and the one behind that in so many
--
--   0                      was held, is free or the next one's
--   1                      was held, is free: those who poll have had their turn lately
--   -1                     was held, is free, but the server refused to say so on the channel
--   2, 4, 8 or 16          was held, is free: who does not queue may ask first, for so
--                          many milliseconds. Nobody queues
--   {2, 4, 8 or 16}        the same, and after that the next in the queue was told to ask
--   {}                     not held by this owner, nor by anybody
--   {pttl, owner, count}   not held by this owner, but by another
--
-- What is published, and what it means:
--
--   channel   0     free: ask.   00: free, and the next in the queue was told
--   a client  n     ask for this lock in n milliseconds
--
-- A reservation grants nothing: who is told asks, and finds the lock its own. A client
-- that does not listen is gone, and its place with it; so is a place of another form.
-- Where the server does not let us tell the next one, everybody is told, `0`, and it is
-- reserved all the same: who queues hears that as well.
--
-- The lock is left free for a fiftieth of the time while others queue, for those whom
-- nobody can count: who spins, or listens at a replica. For a fifth, if more listen to
-- the channel than queue. The gaps last 2, 4, 8 and 16 ms, in turns of a second. Who
-- finds nobody in the queue keeps to that by itself.
--
-- Each place that is dropped, at most 100, costs ZRANGEBYSCORE, NUMSUB and ZREM.
--
-- When somebody queues: TIME, ZSCORE, two ZRANGEBYSCORE, NUMSUB, ZREM, HSET and PEXPIRE.
--
-- Time: ZREM, HDEL, EXISTS, NUMSUB, ZRANGE and PUBLISH.

-- A place that polls has less than this.
local POLLING = -4e15

-- Valkey 9 says an address for the number of those who listen, from eight on. It tells nothing.
local MOST_EARS = 2 ^ 32

-- A score, which others may have written.
local function number(score)
    return tonumber(score) or 0
end

-- The client of an owner, if it has the form of one.
local function client(owner)
    return #owner <= 64 and string.match(owner, '^([%w%-]+):%d+$')
end

-- Tells the client of `owner` to ask in so many milliseconds. Returns whether the server
-- let us.
local function tell(owner, millis)
    local told = client(owner) and redis.pcall('PUBLISH', ARGV[4] .. client(owner), millis)
    return type(told) == 'number'
end

-- Says on the channel that the lock is free.
local function announce(words)
    -- The hold is gone, whatever becomes of the message.
    return type(redis.pcall('PUBLISH', ARGV[2], words)) == 'table' and -1 or 0
end

-- Notes that it is `now` for the moment called `what`. The queue is there, and has an end.
local function note(what, now)
    redis.pcall('ZADD', KEYS[2], string.format('%.0f', -now), what)
end

-- Whether the server does not tell a moment.
local blind = false

-- Microseconds since the moment called `what`; nil if there was none, or it is to come. None
-- have passed if the server does not tell.
local function since(what, now)
    local moment = redis.pcall('ZSCORE', KEYS[2], what)
    if type(moment) ~= 'string' then
        blind = type(moment) == 'table'
        return blind and 0 or nil
    end
    local passed = now + number(moment)
    return passed >= 0 and passed or nil
end

local function odd(now)
    return now - now % 2 + 1
end

-- Whether this release is the first since `what`, however long the lock was held since. It
-- goes to the first who listens; those who do not would come back for each.
local listeners_next = false
local function is_first_since(what, passed, now)
    if blind then
        return true
    end
    local first = passed and (now - passed) % 2 == 1
    if first then
        note(what, now - passed - 1)
    end
    return first
end

-- The first place whose client listens.
local function next_listener()
    for _ = 1, 100 do
        local place = redis.pcall('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'LIMIT', 0, 1)[1]
        if not place then
            return nil
        end
        if client(place) then
            local ears = redis.pcall('PUBSUB', 'NUMSUB', ARGV[4] .. client(place))
            -- It may be there if the server does not let us count.
            if ears[2] ~= 0 then
                return place
            end
        end
        redis.pcall('ZREM', KEYS[2], place)
    end
end

-- The one behind looks who has the lock now, and the one behind that a second later: both
-- before them may be dead. Who came lately looks by itself.
local function warn_next(index, now)
    local next = redis.pcall('ZRANGEBYSCORE', KEYS[2], '0', '+inf', 'WITHSCORES',
        'LIMIT', index, 2)
    for place, millis in pairs({[1] = ARGV[8], [3] = ARGV[9]}) do
        if next[place] and number(next[place + 1]) <= now - ARGV[7] * 1000 then
            tell(next[place], millis)
        end
    end
end

-- Reserves the lock for a place, which goes. Returns whether the server let us.
local function reserve(place, millis)
    if type(redis.pcall('ZREM', KEYS[2], place)) == 'table' then
        return false
    end
    if type(redis.pcall('HSET', KEYS[1], place, '1')) == 'table' then
        return false
    end
    if redis.pcall('PEXPIRE', KEYS[1], millis) ~= 1 then
        redis.call('HDEL', KEYS[1], place)
        return false
    end
    return true
end

-- How many milliseconds a gap lasts now.
local function gap_lasts(now)
    return 2 ^ (1 + math.floor(now / 1000000) % 4)
end

-- Leaves the lock free for a moment if it is time. Returns for how many milliseconds.
local function gap(place, outsiders, now)
    local millis = gap_lasts(now)
    local passed = since('gap', now)
    if is_first_since('gap', passed, now) or listeners_next then
        return nil
    end
    if passed and passed < millis * 1000 * (outsiders and 5 or 50) then
        return nil
    end
    note('gap', odd(now))
    if not passed and not outsiders then
        -- From now on others queue.
        return nil
    end
    announce(tell(place, millis) and '00' or '0')
    warn_next(1, now)
    return {millis}
end

-- Gives the lock to a place that polls, if there is one and it is time.
local function poller(lowest, now)
    if number(lowest[2]) > POLLING then
        return false
    end
    local passed = since('turn', now)
    if is_first_since('turn', passed, now) then
        listeners_next = true
        return false
    end
    if passed and passed < 2000 * ARGV[6] then
        return false
    end
    if not client(lowest[1]) then
        redis.pcall('ZREM', KEYS[2], lowest[1])
        return false
    end
    note('turn', odd(now))
    if not reserve(lowest[1], ARGV[6]) then
        return false
    end
    -- It may hear by now; and it may be dead.
    tell(lowest[1], 0)
    warn_next(0, now)
    return true
end

-- Gives the lock to whom it is due.
local function pass_on(outsiders)
    local lowest = redis.pcall('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if not lowest[1] and not outsiders then
        return announce('0')
    end
    local time = redis.pcall('TIME')
    if not time[1] then
        return announce('0')
    end
    local now = time[1] * 1000000 + time[2]
    if lowest[1] and poller(lowest, now) then
        return 0
    end
    local place = lowest[1] and next_listener()
    if not place then
        -- Those who poll and have had their turn lately keep their places.
        local rests = lowest[1] and number(lowest[2]) <= POLLING
        redis.pcall('ZREM', KEYS[2], 'gap', rests and 'gap' or 'turn')
        local said = announce('0')
        local others = outsiders and gap_lasts(now) or rests and 1
        return said == 0 and others or said
    end
    local millis = gap(place, outsiders, now)
    if millis then
        return millis
    end
    if blind then
        -- Nobody is to starve for that.
        return announce('0')
    end
    if not tell(place, 0) and announce('0') ~= 0 then
        return -1
    end
    if not reserve(place, ARGV[5]) then
        return announce('0')
    end
    warn_next(0, now)
    return 0
end

local queued = redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1

if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    local pttl = redis.call('PTTL', KEYS[1])
    if pttl ~= -2 then
        return holder(KEYS[1], pttl)
    end
    local place = queued and next_listener()
    if place then
        -- Who has gone may have been told that it is free.
        tell(place, 0)
    end
    return {}
end

if redis.pcall('EXISTS', KEYS[1]) ~= 0 then
    -- It is not free: somebody else has put a field there. Or we may not know.
    return announce('0')
end

local ears = redis.pcall('PUBSUB', 'NUMSUB', ARGV[2], ARGV[3])
if not ears[4] then
    return announce('0')
end
return pass_on(ears[2] > ears[4] and ears[2] < MOST_EARS)
