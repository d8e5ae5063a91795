-- semaphore/add: adds permits to a semaphore, or removes some.
--
--   KEYS[1]  semaphore  counter of free permits; created if it is missing
--   KEYS[2]  receipt    reply to this request, kept for a minute
--   ARGV[1]  permits    how many to add; negative to remove
--   ARGV[2]  channel    on which the number of free permits is published
--   ARGV[3]  rest       milliseconds for which the receipt is kept
--
--   0, 1, -1, …   the new number of free permits
--   {err}         the result would exceed Java's `int`
--
-- A negative number is not published, because Redisson cannot read it.
--
-- Cost: GET, GET, SET, INCRBY, PUBLISH and SET.

local before = answered(KEYS[2])
if before then
    return before
end

local free, refused = number_at(KEYS[1])
if not refused then
    refused = uncountable(free + ARGV[1])
end
if refused then
    return refused
end

make_room(KEYS[2], ARGV[3])
free = redis.call('INCRBY', KEYS[1], ARGV[1])
if free >= 0 then
    redis.pcall('PUBLISH', ARGV[2], string.format('%.0f', free))
end
return answer(KEYS[2], ARGV[3], free)
