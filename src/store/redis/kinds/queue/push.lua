-- queue/push: appends elements to a queue.
--
--   KEYS[1]  queue    Redisson's list of elements
--   KEYS[2]  receipt  of this push
--   ARGV[1]  rest     milliseconds for which the receipt is kept
--   ARGV[2]  channel  on which the elements are announced
--   ARGV[i]  element  each element, in order
--
--   1, 2, 3, …   how many elements the queue had after this push. A repeated request returns the
--                same number
--
-- Cost: GET, SET twice, RPUSH for each element, PUBLISH.

local before = answered(KEYS[2])
if before then
    return before
end

make_room(KEYS[2], ARGV[1])
local count = 0
for i = 3, #ARGV do
    count = redis.call('RPUSH', KEYS[1], ARGV[i])
end
redis.pcall('PUBLISH', ARGV[2], '0')
return answer(KEYS[2], ARGV[1], count)
