-- latch/delete: open a latch, however many it waits for.
--
--   KEYS[1]  latch    counter of what is waited for
--   KEYS[2]  receipt  what this question was answered, for a minute
--   ARGV[1]  channel  where to say that it is open, with `0`
--   ARGV[2]  rest     milliseconds for which the receipt is kept
--
--   1   there was one
--   0   there was none
--
-- Redisson says `1` here, closed, and its waiters wait on. It reads `0` as it is: open.
-- GET refuses a key of another type, which DEL would delete. DEL of the receipt changes
-- nothing: a full server lets a script end that has begun so.
--
-- Time: GET, GET, DEL, SET and SET; DEL and PUBLISH when there was one.

local before = answered(KEYS[2])
if before then
    return before
end

local _, refused, there = number_at(KEYS[1])
if refused then
    return refused
end

redis.call('DEL', KEYS[2])
make_room(KEYS[2], ARGV[2])
if not there then
    return answer(KEYS[2], ARGV[2], 0)
end

redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[1], '0')
return answer(KEYS[2], ARGV[2], 1)
