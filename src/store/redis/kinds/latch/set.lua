-- latch/set: close a latch until it is counted down, if it is open.
--
--   KEYS[1]  latch    counter of what is waited for; gone, or none, when nothing is
--   KEYS[2]  receipt  what this question was answered, for a minute
--   ARGV[1]  count    how many, at least one
--   ARGV[2]  channel  where to say so, with `1`
--   ARGV[3]  rest     milliseconds for which the receipt is kept
--
--   1   closed
--   0   it is already, or is anything else
--
-- Time: GET, SET, EXISTS, GET and SET; SET and PUBLISH when it is closed.

local before = answered(KEYS[2])
if before then
    return before
end

make_room(KEYS[2], ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 1 then
    -- What is no text is anything else.
    local count = redis.pcall('GET', KEYS[1])
    if type(count) ~= 'string' or (tonumber(count) or 1) > 0 then
        return answer(KEYS[2], ARGV[3], 0)
    end
end

redis.call('SET', KEYS[1], ARGV[1])
redis.pcall('PUBLISH', ARGV[2], '1')
return answer(KEYS[2], ARGV[3], 1)
