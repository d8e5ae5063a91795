-- queue/acquire: puts the elements of expired claims back into a queue, then claims the head.
--
--   KEYS[1]  queue      Redisson's list of elements
--   KEYS[2]  claims     hash {owner: claim}. A claim is the text `TIME:ELEMENT`. TIME is when the
--                       element was taken, in microseconds since 1970 on the server's clock, with
--                       sixteen digits
--   KEYS[3]  claimants  zset {owner: milliseconds since 1970 when its lease ends}
--   ARGV[1]  owner      unique to this acquisition
--   ARGV[2]  lease      in milliseconds
--   ARGV[3]  channel    on which returned elements are announced
--   ARGV[4]  longest    how many bytes of an element are returned
--
--   {owner, claim, bytes}  granted. `bytes` is the length of the element. A longer reply would end
--                          the connection, so `claim` has only the first ARGV[4] bytes of the
--                          element. A repeated request of the same owner gets the same element and
--                          a fresh lease, so a lost reply is safe
--   {pttl}                 the queue is empty; the first lease ends in pttl milliseconds (-1: no
--                          element is claimed)
--
-- The script writes an element to its new place before it removes the element from the old place,
-- so no element is lost. If the server rejects the removal, the script undoes the write. If the
-- server also rejects the undoing, the element exists twice.
--
-- The elements of expired claims go to the head in the order in which they were taken. Each expired
-- claim costs HGET, LPUSH, HDEL and ZREM. All expired claims together cost one PUBLISH. One request
-- puts back at most a thousand elements, and the next requests put back the others.
--
-- Cost: TIME, ZRANGEBYSCORE, HGET, LINDEX, HSET, ZADD and LPOP.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local expired = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now), 'LIMIT', '0', '1000')
if #expired > 0 then
    local claims = {}
    for _, owner in ipairs(expired) do
        claims[owner] = redis.call('HGET', KEYS[2], owner) or ''
    end
    table.sort(expired, function(one, other)
        return string.sub(claims[one], 1, 16) > string.sub(claims[other], 1, 16)
    end)
    for _, owner in ipairs(expired) do
        if claims[owner] ~= '' then
            redis.call('LPUSH', KEYS[1], string.sub(claims[owner], 18))
            local ended = redis.pcall('HDEL', KEYS[2], owner)
            if type(ended) == 'table' then
                redis.call('LPOP', KEYS[1])
                return ended
            end
        end
        redis.call('ZREM', KEYS[3], owner)
    end
    redis.pcall('PUBLISH', ARGV[3], '0')
end

local function granted(claim)
    return {ARGV[1], string.sub(claim, 1, 17 + ARGV[4]), #claim - 17}
end

local claim = redis.call('HGET', KEYS[2], ARGV[1])
local ends = string.format('%.0f', now + ARGV[2])
if claim then
    redis.call('ZADD', KEYS[3], ends, ARGV[1])
    return granted(claim)
end

local element = redis.call('LINDEX', KEYS[1], '0')
if not element then
    local first = redis.call('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
    return {first[2] and math.max(1, first[2] - now) or -1}
end

claim = string.format('%016.0f:', time[1] * 1000000 + time[2]) .. element
redis.call('ZADD', KEYS[3], ends, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], claim)
local popped = redis.pcall('LPOP', KEYS[1])
if type(popped) == 'table' then
    redis.call('HDEL', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
    return popped
end
return granted(claim)
