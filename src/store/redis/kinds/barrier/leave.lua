-- barrier/leave: removes a member that gives up waiting, or that leaves a double barrier.
--
--   KEYS[1]  members  zset {member: millisecond until which it counts}
--   KEYS[2]  inside   only of a double barrier: zset {member: millisecond until which it is inside}
--   ARGV[1]  member   that leaves
--   ARGV[2]  channel  on which `0` announces that nobody is inside
--
--   1   the member was removed
--   0   the member was not found: the barrier has opened for it, or its time was over
--
-- Cost: ZREM; for a double barrier also ZREM, ZCARD and PUBLISH.

local waited = redis.call('ZREM', KEYS[1], ARGV[1])
if waited == 1 or not KEYS[2] then
    return waited
end

local left = redis.call('ZREM', KEYS[2], ARGV[1])
if left == 1 and redis.call('ZCARD', KEYS[2]) == 0 then
    redis.pcall('PUBLISH', ARGV[2], '0')
end
return left
