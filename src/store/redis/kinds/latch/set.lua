-- latch/set: closes an open latch, until it is counted down.
--
--   KEYS[1]  latch    counter; missing, or 0, when the latch is open
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   ARGV[1]  count    at least 1
--   ARGV[2]  channel  on which `1` announces that the latch is closed
--   ARGV[3]  rest     milliseconds for which the receipt is kept
--
--   1   the script closed the latch
--   0   the latch was already closed, or the key has another type
--
-- Cost: GET, SET, EXISTS, GET and SET; SET and PUBLISH if it closes the latch.

local before = answered(KEYS[2])
if before then
    return before
end

make_room(KEYS[2], ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 1 then
    -- A key of another type, or a text that is not a number, stays as it is.
    local count = redis.pcall('GET', KEYS[1])
    if type(count) ~= 'string' or (tonumber(count) or 1) > 0 then
        return answer(KEYS[2], ARGV[3], 0)
    end
end

redis.call('SET', KEYS[1], ARGV[1])
redis.pcall('PUBLISH', ARGV[2], '1')
return answer(KEYS[2], ARGV[3], 1)
