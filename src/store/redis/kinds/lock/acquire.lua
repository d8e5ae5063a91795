-- lock/acquire: grants an exclusive lock, or returns its holder.
--
--   KEYS[1]  lock    hash {owner: hold count}; lives as long as the lease
--   KEYS[2]  queue   zset {owner: microsecond of its arrival}; only passed by a waiter. See
--                    lock/hand_over. If tokens are drawn without a queue, KEYS[2] repeats
--                    KEYS[1]
--   KEYS[3]  tokens  Redisson's counter, without a TTL; only passed to draw tokens
--   ARGV[1]  owner   unique to this acquisition
--   ARGV[2]  ttl     lease in milliseconds
--   ARGV[3]  place   what a waiter leaves if the lock is held. `listening`: a queue entry, because
--                    the waiter receives its notifications. `kept`: no new entry, but an existing
--                    entry stays. Empty if there is no queue
--   ARGV[4]  rest    milliseconds until an unused queue expires
--   ARGV[5]  tokens  how many fencing tokens to draw, if any
--
--   owner                  granted, with a hold count of 1. A repeated request gets the same
--                          grant and a fresh lease, so a lost reply is safe.
--   {owner, first}         the same, with the first of the drawn tokens. A repeated request
--                          draws new tokens, and the earlier tokens stay unused
--   {pttl, owner, count}   held for at most pttl milliseconds (-1: without end). A fourth
--                          element, 1, reports that the server denied the queue entry
--
-- An existing queue entry stays as it is. A new entry costs TIME, ZADD and PEXPIRE.
--
-- If the lock is reserved for this owner, the grant costs HSCAN and PEXPIRE.
--
-- Cost: PTTL, HSET and PEXPIRE when free; HSCAN and PTTL when held.

-- Lua represents whole numbers exactly only up to this number.
local MOST = 2 ^ 53 - 1

local waits = ARGV[3] and ARGV[3] ~= ''

-- Draws tokens. Returns the first token, or nil and an error.
local function draw()
    local last = redis.pcall('INCRBY', KEYS[3], ARGV[5])
    local is_number = type(last) == 'number'
    if is_number and last <= MOST and last >= tonumber(ARGV[5]) then
        return last - ARGV[5] + 1
    elseif is_number or last.err:find('WRONGTYPE') or last.err:find('not an integer') then
        return nil, redis.error_reply('ERR the key is not a counter of fencing tokens below 2^53: ' .. KEYS[3])
    end
    return nil, last
end

-- Adds a queue entry. Returns false if the server denied it.
local function queue_up()
    local now = redis.pcall('TIME')
    if not now[1] then
        return false
    end
    local since = now[1] * 1000000 + now[2]
    local added = redis.pcall('ZADD', KEYS[2], 'NX', string.format('%.0f', since), ARGV[1])
    if type(added) ~= 'number' then
        -- These rejections are temporary and do not count as denied: the server was demoted, lacks
        -- replicas, cannot write to its disk, or is full.
        for _, passing in ipairs({'READONLY', 'NOREPLICAS', 'MISCONF', 'OOM'}) do
            if string.find(added.err, passing, 1, true) then
                return true
            end
        end
        return false
    end
    if type(redis.pcall('PEXPIRE', KEYS[2], ARGV[4])) == 'table' then
        -- Without a TTL, the queue would stay for ever.
        redis.pcall('ZREM', KEYS[2], ARGV[1])
        return false
    end
    return true
end

-- A waiter usually finds the lock held or reserved, so it needs HSCAN in any case. Other callers
-- usually find the lock free, which PTTL shows at a lower cost.
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
    -- PEXPIRE was rejected, maybe by the ACL. Without a TTL, the hold would never end.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return lease
end
if waits and not owner then
    -- If `owner` is set, a reservation or an earlier grant has already removed the queue entry.
    redis.pcall('ZREM', KEYS[2], ARGV[1])
end
return first and {ARGV[1], first} or ARGV[1]
