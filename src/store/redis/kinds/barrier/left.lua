-- barrier/left: returns whether all members of a generation have left a double barrier.
--
--   KEYS[1]  inside      zset {member: millisecond until which it is inside}
--   KEYS[2]  generation  counter of openings
--   ARGV[1]  generation  in which the caller was inside
--
--   {1}                    all have left, or their leases are over
--   {0, count, member, …}  how many are inside, and up to sixteen of them
--
-- A later generation proves that all members have left, because the double barrier opens only while
-- no member is inside.
--
-- Cost: GET, TIME, ZREMRANGEBYSCORE, ZCARD and ZRANGE.

local generation = redis.call('GET', KEYS[2])
if generation and generation ~= ARGV[1] then
    return {1}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local count = redis.call('ZCARD', KEYS[1])
if count == 0 then
    return {1}
end
local reply = redis.call('ZRANGE', KEYS[1], 0, 15)
table.insert(reply, 1, count)
table.insert(reply, 1, 0)
return reply
