-- latch/count_down: counts a latch down, and opens it at zero.
--
--   KEYS[1]  latch    counter
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   ARGV[1]  channel  on which `0` announces that the latch is open
--   ARGV[2]  rest     milliseconds for which the receipt is kept
--
--   0, 1, 2, …   the new count, at most 2^53 - 1, up to which Lua represents whole numbers exactly
--
-- An open latch stays open. A latch that another program set to 0 is deleted.
--
-- Cost: GET, GET, SET, DECR and SET; DEL and PUBLISH at zero.

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
