-- delete: deletes a latch or a semaphore. A deleted latch is open. The counter may have any value.
--
--   KEYS[1]  counter  of a latch, or of the free permits of a semaphore
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   KEYS[3]  holders  hash {owner: permits}, only of a semaphore
--   ARGV[1]  channel  on which `0` announces that a latch is open; empty for a semaphore
--   ARGV[2]  rest     milliseconds for which the receipt is kept
--
--   1   the counter existed
--   0   the counter did not exist
--
-- Redisson publishes `1` (closed) when it deletes a latch, so the waiters keep waiting. Leasehold
-- publishes `0`, which Redisson's waiters understand as open. GET comes first because it rejects a
-- key of another type, which DEL would delete. The DEL of the receipt changes nothing, but after a
-- DEL, a full server also accepts the other writes of the script.
--
-- Cost: GET, GET, DEL, SET and SET; DEL when the counter existed, and PUBLISH for a latch.

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

redis.call('DEL', unpack({KEYS[1], KEYS[3]}))
if ARGV[1] ~= '' then
    redis.pcall('PUBLISH', ARGV[1], '0')
end
return answer(KEYS[2], ARGV[2], 1)
