-- semaphore/add: add permits to a semaphore, or take some away.
--
--   KEYS[1]  semaphore  counter of free permits; made if there is none
--   KEYS[2]  receipt    what this question was answered, for a minute
--   ARGV[1]  permits    how many more, or with a sign, fewer
--   ARGV[2]  channel    where to say how many are free
--   ARGV[3]  rest       milliseconds for which the receipt is kept
--
--   0, 1, -1, …   how many are free then
--   {err}         there would be more, or fewer, than Java can count
--
-- A number below 0 is not published: Redisson's would not read it.
--
-- Time: GET, GET, SET, INCRBY, PUBLISH and SET.

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
