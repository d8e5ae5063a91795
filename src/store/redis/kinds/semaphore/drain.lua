-- semaphore/drain: removes all free permits.
--
--   KEYS[1]  semaphore  counter of free permits
--   KEYS[2]  receipt    reply to this request, kept for a minute
--   ARGV[1]  rest       milliseconds for which the receipt is kept
--
--   0, 1, 2, …   how many permits were removed. A negative counter stays as it is
--
-- Cost: GET, GET, SET, DECRBY and SET.

local before = answered(KEYS[2])
if before then
    return before
end

local free, refused = number_at(KEYS[1])
if refused then
    return refused
end

make_room(KEYS[2], ARGV[1])
if free > 0 then
    redis.call('DECRBY', KEYS[1], string.format('%.0f', free))
end
return answer(KEYS[2], ARGV[1], math.max(free, 0))
