-- set/pop: removes any element of a set, and returns it.
--
--   KEYS[1]  set      of elements
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   ARGV[1]  rest     milliseconds for which the receipt is kept
--   ARGV[2]  longest  how many bytes the reply may have
--
--   0     the set is empty
--   1…    the removed element follows the 1
--   {1}   the element is longer than the longest reply. Nothing changed
--
-- Cost: GET and SRANDMEMBER; SET and SREM if the set has an element.

local before = replied(KEYS[2])
if before then
    return before
end

local element = redis.call('SRANDMEMBER', KEYS[1])
if not element then
    return '0'
elseif #element > tonumber(ARGV[2]) then
    return {1}
end
return once(KEYS[2], ARGV[1], '1' .. element, 'SREM', KEYS[1], element)
