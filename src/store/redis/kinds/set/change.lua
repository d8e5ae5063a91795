-- set/change: adds elements to a set, or removes elements.
--
--   KEYS[1]  set      of elements
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   ARGV[1]  rest     milliseconds for which the receipt is kept
--   ARGV[2]  verb     SADD or SREM; NONE adds the elements unless the set has one of them
--   ARGV[i]  element  to add or to remove, at least one
--
--   0   nothing changed
--   1   changed
--
-- Cost: GET, and SISMEMBER for each element; for a change SET, and SADD or SREM.

local before = replied(KEYS[2])
if before then
    return before
end

local verb, there = ARGV[2], 0
for i = 3, #ARGV do
    there = there + redis.call('SISMEMBER', KEYS[1], ARGV[i])
end

if verb == 'SREM' and there > 0 then
    return once(KEYS[2], ARGV[1], '1', 'SREM', KEYS[1], unpack(ARGV, 3))
elseif (verb == 'SADD' and there < #ARGV - 2) or (verb == 'NONE' and there == 0) then
    return once(KEYS[2], ARGV[1], '1', 'SADD', KEYS[1], unpack(ARGV, 3))
end
return '0'
