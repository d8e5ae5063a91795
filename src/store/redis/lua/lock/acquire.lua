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
--   {owner}                granted, with a hold count of 1. The same owner asking again
--                          gets the same grant and a fresh lease, so a lost reply is safe.
--   {pttl, owner, count}   taken for at most pttl milliseconds (-1: without end).
--
-- Who has a place already keeps it: it costs TIME, ZADD and PEXPIRE.
--
-- Time: PTTL, HSET and PEXPIRE when free; PTTL, HLEN and HGETALL when taken.

-- What the server refuses here, it refuses the queue: the answer is the same.
local function queue_up()
    local now = redis.call('TIME')
    local since = now[1] * 1000000 + now[2]
    if ARGV[3] == 'polling' then
        since = since - 2 ^ 53
    end
    local added = redis.pcall('ZADD', KEYS[2], 'NX', string.format('%.0f', since), ARGV[1])
    if type(added) == 'number' and type(redis.pcall('PEXPIRE', KEYS[2], ARGV[4])) == 'table' then
        -- A queue without an end must not stay.
        redis.pcall('ZREM', KEYS[2], ARGV[1])
    end
end

local pttl = redis.call('PTTL', KEYS[1])

if pttl ~= -2 then
    local held = holder(KEYS[1], pttl)
    if held[2] ~= ARGV[1] then
        if KEYS[2] and ARGV[3] ~= 'kept' then
            queue_up()
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
return {ARGV[1]}
