-- lock/hand_over: take the hold from its owner and give it to the next in the queue.
--
--   KEYS[1]  lock     hash {owner: hold count}
--   KEYS[2]  queue    zset {place: microseconds when it was taken}, where a place
--                     is <owner>|<number>|<milliseconds of the lease of a grant>
--   ARGV[1]  owner    who gives back
--   ARGV[2]  channel  where everybody listens who waits
--   ARGV[3]  queuers  where those listen, beside it, who queue
--   ARGV[4]  clients  what the channel of a client begins with
--   ARGV[5]  passes   how often the lock goes so in a row, this time included; 0 lets
--                     whoever asks first have it, and tells the first to ask
--   ARGV[6]  place    where the owner stands itself, to be given up; or empty
--   ARGV[7]  before   where it stood before, as the server may have it still; or empty
--   ARGV[8]  wait     microseconds of waiting after which the next one to be first
--                     is told to ask anew
--
--   1                was held, is free or the next one's
--   2                was held, is free, but the server refused to say so on the channel
--   3                was held, is free, and somebody waits who does not queue
--   {}               not held by this owner, nor by anybody
--   {pttl, fields}   not held by this owner, but by another
--
-- To the channel of a client goes `granted <number> <passes> <owner> <lock>`, and
-- `first <lock>` to one who should ask anew. A client that does not listen there
-- is gone, or cannot hear: its place is passed over.
--
-- The lock is given back openly if somebody waits who does not queue, and where
-- the server refuses what a queue needs.
--
-- Each place that is tried, at most 100, costs ZPOPMIN, HSET, PEXPIRE and PUBLISH.
--
-- Time: HDEL, PUBSUB NUMSUB, HLEN, a place, TIME and ZRANGE; PUBLISH when nobody queues.

local function client(place)
    return ARGV[4] .. string.match(place, '^(.*):%d+|')
end

-- Has the first in the queue ask anew, if it is there since then. Returns whether
-- somebody was told.
local function tell_first(since)
    local first = redis.pcall('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if first[1] and (not since or tonumber(first[2]) <= since) then
        local ears = redis.pcall('PUBLISH', client(first[1]), 'first ' .. KEYS[1])
        return type(ears) == 'number' and ears > 0
    end
    return false
end

-- Grants the lock to a place. Returns whether somebody was told of it.
local function grant(place)
    local owner, number, lease = string.match(place, '^(.*)|(%d+)|(%d+)$')
    if owner == ARGV[1] then
        return false
    end
    local granted = redis.pcall('HSET', KEYS[1], owner, '1')
    granted = type(granted) ~= 'table' and redis.pcall('PEXPIRE', KEYS[1], lease)
    if granted == 1 then
        local words = {'granted', number, ARGV[5], owner, KEYS[1]}
        local ears = redis.pcall('PUBLISH', client(place), table.concat(words, ' '))
        if type(ears) == 'number' and ears > 0 then
            return true
        end
    end
    redis.call('HDEL', KEYS[1], owner)
    return false
end

-- Gives the lock to the queue. Returns whether somebody was told.
local function pass_on()
    if redis.call('HLEN', KEYS[1]) > 0 then
        -- It is not free: somebody else has put a field there.
        return false
    end
    if ARGV[5] == '0' then
        return tell_first()
    end
    for _ = 1, 100 do
        local place = redis.pcall('ZPOPMIN', KEYS[2])[1]
        if not place then
            return false
        end
        if grant(place) then
            local now = redis.call('TIME')
            tell_first(now[1] * 1000000 + now[2] - ARGV[8])
            return true
        end
    end
    return false
end

local held = redis.call('HDEL', KEYS[1], ARGV[1]) == 1

if ARGV[6] ~= '' and redis.pcall('ZREM', KEYS[2], ARGV[6], ARGV[7]) == 1 then
    tell_first()
end

if not held then
    local ttl = redis.call('PTTL', KEYS[1])
    if ttl == -2 then
        return {}
    end
    return {ttl, redis.call('HGETALL', KEYS[1])}
end

local ears = redis.pcall('PUBSUB', 'NUMSUB', ARGV[2], ARGV[3])
local outsiders = ears[4] and ears[2] > ears[4]
if ears[4] and not outsiders and pass_on() then
    return 1
end

-- The hold is gone, whatever becomes of the message.
if type(redis.pcall('PUBLISH', ARGV[2], '0')) == 'table' then
    return 2
end
return outsiders and 3 or 1
