-- semaphore/delete: deletes a semaphore and its hash of holders.
--
--   KEYS[1]  semaphore  counter of free permits
--   KEYS[2]  receipt    reply to this request, kept for a minute
--   KEYS[3]  holders    hash {owner: permits}
--   ARGV[1]  rest       milliseconds for which the receipt is kept
--
--   1   the semaphore existed
--   0   the semaphore did not exist
--
-- GET comes first because it rejects a key of another type, which DEL would delete. The DEL of the
-- receipt changes nothing, but after a DEL a full server also accepts the other writes of the
-- script.
--
-- Time: GET, GET, DEL, SET and SET; DEL when the semaphore existed.

local before = answered(KEYS[2])
if before then
    return before
end

local _, refused, there = number_at(KEYS[1])
if refused then
    return refused
end

redis.call('DEL', KEYS[2])
make_room(KEYS[2], ARGV[1])
if not there then
    return answer(KEYS[2], ARGV[1], 0)
end

redis.call('DEL', KEYS[1], KEYS[3])
return answer(KEYS[2], ARGV[1], 1)
