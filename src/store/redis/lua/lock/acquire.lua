-- lock/acquire: grant an exclusive lock, or say who has it.
--
--   KEYS[1]  lock    hash {owner: hold count}; lives as long as the lease
--   KEYS[2]  queue   zset {owner: microseconds when it came}; only given by one who
--                    waits. See lock/hand_over
--   ARGV[1]  owner   who asks, unique to this acquisition
--   ARGV[2]  ttl     lease in milliseconds
--   ARGV[3]  place   what to leave in the queue when the lock is taken: `listening`,
--                    `polling`, or nothing new for `kept`
--   ARGV[4]  rest    milliseconds after which a queue that nobody asks about goes
--
--   owner                  granted, with a hold count of 1. The same owner asking again
--                          gets the same grant and a fresh lease, so a lost reply is safe.
--   {pttl, owner, count}   taken for at most pttl milliseconds (-1: without end). With
--                          a fourth, 1, there is no place: the server refuses it
--
-- Who has a place already keeps it: it costs TIME, ZADD and PEXPIRE.
--
-- Time: PTTL, HSET and PEXPIRE when free; PTTL, HLEN and HGETALL when taken.

-- Takes a place. Returns whether the server let us.
local function queue_up()
    local now = redis.pcall('TIME')
    if not now[1] then
        return false
    end
    local since = now[1] * 1000000 + now[2]
    if ARGV[3] == 'polling' then
        since = since - 2 ^ 53
    end
    local added = redis.pcall('ZADD', KEYS[2], 'NX', string.format('%.0f', since), ARGV[1])
    if type(added) ~= 'number' then
        -- A server that is no master any more refuses it for a while, and not to us alone.
        if string.find(added.err, 'READONLY', 1, true) then
            return true
        end
        -- Without memory the place that it has stays.
        return type(redis.pcall('ZSCORE', KEYS[2], ARGV[1])) == 'string'
    end
    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[4])) == 'table' then
        -- A queue without an end must not stay.
        redis.pcall('ZREM', KEYS[2], ARGV[1])
        return false
    end
    return true
end

local pttl = redis.call('PTTL', KEYS[1])

if pttl ~= -2 then
    local held = holder(KEYS[1], pttl)
    if held[2] ~= ARGV[1] then
        if KEYS[2] and ARGV[3] ~= 'kept' and not queue_up() then
            held[4] = 1
        end
        return held
    end
else
    redis.call('HSET', KEYS[1], ARGV[1], '1')
end

local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(lease) == 'table' then
    -- Refused, by an ACL perhaps. A hold without an end must not stay.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return lease
end
if KEYS[2] then
    redis.pcall('ZREM', KEYS[2], ARGV[1])
end
return ARGV[1]
