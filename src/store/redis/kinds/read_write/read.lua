-- read_write/read: grants a read lock, unless the write side is held.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, `owner:write`: hold count};
--                     lives as long as the longest lease
--   KEYS[2]  lease    string; lives as long as the lease of this reader
--   KEYS[3]  writers  zset {owner: its arrival, `until:owner`: negative expiry time of the entry};
--                     only passed if this reader lets earlier writers acquire first
--   ARGV[1]  owner    unique to this acquisition
--   ARGV[2]  ttl      lease in milliseconds
--   ARGV[3]  writer   the field `owner:write`, if this owner requests a read lock during its own
--                     write hold; else empty
--   ARGV[4]  waited   milliseconds for which this reader has waited
--   ARGV[5]  period   milliseconds for which readers wait for an earlier writer. For the next
--                     period of this length, readers may acquire. The two periods alternate
--
--   owner                  granted. A repeated request gets the same grant and a fresh lease
--   {pttl, owner, count}   the write side is held for at most pttl milliseconds (-1: without end)
--   {left, writer, 0}      readers wait for this earlier writer for another `left` milliseconds
--   {}                     the writer of ARGV[3] no longer holds the lock
--
-- The script checks at most 16 earlier writers, some of which may have stopped waiting.
--
-- Cost: HGET, HEXISTS, SET, HSET, PTTL, PEXPIRE for any number of readers; ZRANGEBYSCORE, ZSCORE.

local MOST_LOOKED_AT = 16

-- Returns the earlier writer for which this reader must wait now. The first period of a writer
-- begins when the writer arrives.
local function earlier_writer()
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local before = redis.pcall('ZRANGEBYSCORE', KEYS[3], '(0', now - ARGV[4], 'WITHSCORES',
        'LIMIT', '0', MOST_LOOKED_AT)
    for i = 1, #before, 2 do
        local ends = tonumber(redis.pcall('ZSCORE', KEYS[3], 'until:' .. before[i]))
        if ends and now < -ends then
            local left = tonumber(ARGV[5]) - (now - before[i + 1]) % (2 * ARGV[5])
            return left > 0 and {math.min(left, -ends - now), string.sub(before[i], 1, 512), '0'} or nil
        end
    end
    return nil
end

local mode = redis.call('HGET', KEYS[1], 'mode')
local is_writer = ARGV[3] ~= ''
local reads = (is_writer or KEYS[3]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if is_writer and not reads then
    is_writer = mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1
    if not is_writer then
        local pttl = redis.call('PTTL', KEYS[1])
        return pttl == -2 and {} or in_the_way(KEYS[1], mode, pttl)
    end
elseif mode ~= 'read' and not is_writer then
    local pttl = redis.call('PTTL', KEYS[1])
    if pttl ~= -2 then
        return in_the_way(KEYS[1], mode, pttl)
    end
end

local first = KEYS[3] and not reads and not is_writer and earlier_writer()
if first then
    return first
end

redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
if not mode then
    redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(lease) == 'table' then
        -- Without a TTL, the hold would never end.
        redis.call('HDEL', KEYS[1], ARGV[1])
        if not mode then
            redis.call('HDEL', KEYS[1], 'mode')
        end
        return lease
    end
end
return ARGV[1]
