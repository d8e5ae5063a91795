-- semaphore/set_if_absent: creates a semaphore, unless it exists.
--
--   KEYS[1]  semaphore  counter of free permits
--   KEYS[2]  receipt    reply to this request, kept for a minute
--   KEYS[3]  holders    hash {owner: permits}
--   ARGV[1]  permits    how many
--   ARGV[2]  channel    on which the number of free permits is published
--   ARGV[3]  rest       milliseconds for which the receipt is kept
--
--   1   created. Holders of permits of a deleted semaphore have no permits of the new semaphore
--   0   the semaphore existed. The script deletes the receipt, because a repeated request returns
--       0 even without the receipt
--
-- Cost: GET, SET, EXISTS and PEXPIRE; SET, DEL, PUBLISH and SET if the semaphore is created.

local before = answered(KEYS[2])
if before then
    return before
end

make_room(KEYS[2], ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.pcall('PEXPIRE', KEYS[2], 0)
    return 0
end

redis.call('SET', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[3])
redis.pcall('PUBLISH', ARGV[2], ARGV[1])
return answer(KEYS[2], ARGV[3], 1)
