-- lock/acquire: grant an exclusive lock, or say who has it.
--
--   KEYS[1]  lock    hash {owner: hold count}; lives as long as the lease
--   KEYS[2]  queue   zset {owner: microsecond of its arrival}; only given by a waiter.
--                    See lock/hand_over
--   KEYS[3]  tokens  counter of Redisson's, without an end; only given to draw tokens.
--                    Without a queue KEYS[2] is then the lock
--   ARGV[1]  owner   who asks, unique to this acquisition
--   ARGV[2]  ttl     lease in milliseconds
--   ARGV[3]  place   what to leave in the queue when the lock is taken: a place for
--                    `listening`, nothing more for `kept`; empty without a queue
--   ARGV[4]  rest    milliseconds until a queue expires that nobody asks about
--   ARGV[5]  tokens  how many fencing tokens to draw, if any
--
--   owner                  granted, with a hold count of 1. The same owner asking again
--                          gets the same grant and a fresh lease, so a lost reply is safe.
--   {owner, first}         the same, with the first of the tokens that were drawn. Asked
--                          again there are new ones: those between are a gap
--   {pttl, owner, count}   taken for at most pttl milliseconds (-1: without end). With
--                          a fourth, 1, there is no place: the server refuses it
--
-- A place that is there stays as it is: it costs TIME, ZADD and PEXPIRE.
--
-- When reserved for this owner: HSCAN and PEXPIRE.
--
-- Time: PTTL, HSET and PEXPIRE when free; HSCAN and PTTL when taken.

-- Numbers beyond this are not exact here.
local MOST = 2 ^ 53 - 1

local waits = ARGV[3] and ARGV[3] ~= ''

-- Draws tokens. Returns the first, or an error.
local function draw()
    local last = redis.pcall('INCRBY', KEYS[3], ARGV[5])
    local is_number = type(last) == 'number'
    if is_number and last <= MOST and last >= tonumber(ARGV[5]) then
        return last - ARGV[5] + 1
    elseif is_number or last.err:find('WRONGTYPE') or last.err:find('not an integer') then
        return nil, redis.error_reply('ERR no counter of fencing tokens below 2^53: ' .. KEYS[3])
    end
    return nil, last
end

-- Takes a place. Returns whether the server let us.
local function queue_up()
    local now = redis.pcall('TIME')
    if not now[1] then
        return false
    end
    local since = now[1] * 1000000 + now[2]
    local added = redis.pcall('ZADD', KEYS[2], 'NX', string.format('%.0f', since), ARGV[1])
    if type(added) ~= 'number' then
        -- A server that is no master any more, or misses its replicas, or cannot write its disk,
        -- or has no memory, refuses it for a while, and not to this client alone.
        for _, passing in ipairs({'READONLY', 'NOREPLICAS', 'MISCONF', 'OOM'}) do
            if string.find(added.err, passing, 1, true) then
                return true
            end
        end
        return false
    end
    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[4])) == 'table' then
        -- A queue without an end must not stay.
        redis.pcall('ZREM', KEYS[2], ARGV[1])
        return false
    end
    return true
end

-- A waiter expects to find the lock taken, or reserved for it. For others PTTL costs less.
local owner, count
if waits or redis.call('PTTL', KEYS[1]) ~= -2 then
    owner, count = holder_of(KEYS[1])
end

if owner and owner ~= ARGV[1] then
    local held = {redis.call('PTTL', KEYS[1]), owner, count}
    if waits and ARGV[3] ~= 'kept' and not queue_up() then
        held[4] = 1
    end
    return held
end

local first, refused
if ARGV[5] then
    first, refused = draw()
    if refused then
        return refused
    end
end

if not owner then
    redis.call('HSET', KEYS[1], ARGV[1], '1')
end

local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(lease) == 'table' then
    -- Refused, by an ACL perhaps. A hold without an end must not stay.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return lease
end
if waits and not owner then
    -- A reservation, or a first grant, has taken the place already.
    redis.pcall('ZREM', KEYS[2], ARGV[1])
end
return first and {ARGV[1], first} or ARGV[1]
