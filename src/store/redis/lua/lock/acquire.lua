-- lock/acquire: grant an exclusive lock, or say who has it.
--
--   KEYS[1]  lock    hash {owner: hold count}; lives as long as the lease
--   KEYS[2]  queue   zset {place: microseconds when it was taken}; only given by
--                    one who waits and would hear of a grant
--   ARGV[1]  owner   who asks, unique to this acquisition
--   ARGV[2]  ttl     lease in milliseconds
--   ARGV[3]  place   <owner>|<number>|<milliseconds of the lease of a grant>
--   ARGV[4]  before  place of an earlier question, which this one takes; or empty
--   ARGV[5]  rest    milliseconds after which a queue that nobody asks about goes
--
--   1                granted, with a hold count of 1. The same owner asking again
--                    gets the same grant and a fresh lease, so a lost reply is safe.
--   {pttl, fields}   taken for at most pttl milliseconds (-1: without end).
--
-- A place in the queue costs ZSCORE or TIME, ZREM, ZADD and PEXPIRE.
--
-- Time: PTTL, HSET and PEXPIRE when free; PTTL and HGETALL when taken.

-- What the server refuses here, it refuses the queue: the answer is the same.
local function queue_up()
    local since = ARGV[4] ~= '' and redis.pcall('ZSCORE', KEYS[2], ARGV[4])
    if type(since) == 'string' then
        redis.pcall('ZREM', KEYS[2], ARGV[4])
    else
        local now = redis.call('TIME')
        since = now[1] .. string.format('%06d', now[2])
    end
    redis.pcall('ZADD', KEYS[2], 'NX', since, ARGV[3])
    redis.pcall('PEXPIRE', KEYS[2], ARGV[5])
end

local ttl = redis.call('PTTL', KEYS[1])

if ttl ~= -2 then
    local fields = redis.call('HGETALL', KEYS[1])
    if fields[1] ~= ARGV[1] then
        if KEYS[2] then
            queue_up()
        end
        return {ttl, fields}
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
if KEYS[2] and ARGV[4] ~= '' then
    redis.pcall('ZREM', KEYS[2], ARGV[4])
end
return 1
