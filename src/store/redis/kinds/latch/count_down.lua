-- latch/count_down: count a latch down, and open it with the last one.
--
--   KEYS[1]  latch    counter of what is waited for
--   KEYS[2]  receipt  what this question was answered, for a minute
--   ARGV[1]  channel  where to say that it is open, with `0`
--   ARGV[2]  rest     milliseconds for which the receipt is kept
--
--   0, 1, 2, …   how many are left, 2^53 - 1 at most: Lua counts no further
--
-- A latch that is open stays so. Of one that somebody has set to none nothing is left.
--
-- Time: GET, GET, SET, DECR and SET; DEL and PUBLISH with the last one.

local before = answered(KEYS[2])
if before then
    return before
end

local count, refused = number_at(KEYS[1])
if refused then
    return refused
end

make_room(KEYS[2], ARGV[2])
if count > 0 then
    count = redis.call('DECR', KEYS[1])
end
if count <= 0 and redis.call('DEL', KEYS[1]) == 1 then
    redis.pcall('PUBLISH', ARGV[1], '0')
end
return answer(KEYS[2], ARGV[2], math.min(math.max(count, 0), 9007199254740991))
