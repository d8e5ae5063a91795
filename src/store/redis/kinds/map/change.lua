-- map/change: changes an entry of a map.
--
--   KEYS[1]  map      hash {key: value}
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   ARGV[1]  rest     milliseconds for which the receipt is kept
--   ARGV[2]  longest  how many bytes the reply may have
--   ARGV[3]  verb     insert, absent, replace, compare, remove or matching
--   ARGV[4]  key      of the entry
--   ARGV[5]  value    the new value; empty for a removal
--   ARGV[6]  old      the value that is expected by compare and matching; else empty
--
--   0          nothing changed: there was no entry, or it had another value
--   1…         changed, or, for absent, the entry was there; followed by the value before, except
--              for compare and matching
--   {1}        the value before is longer than the longest reply. Nothing changed
--
-- If nothing changes, there is no receipt: a repeated request may change something, and its reply
-- is then true.
--
-- Time: GET and HGET; SET and HSET or HDEL when it changes something.

local before = replied(KEYS[2])
if before then
    return before
end

local verb, there = ARGV[3], redis.call('HGET', KEYS[1], ARGV[4])

if verb == 'compare' or verb == 'matching' then
    if there ~= ARGV[6] then
        return '0'
    elseif verb == 'compare' then
        return once(KEYS[2], ARGV[1], '1', 'HSET', KEYS[1], ARGV[4], ARGV[5])
    end
    return once(KEYS[2], ARGV[1], '1', 'HDEL', KEYS[1], ARGV[4])
end

if there and #there > tonumber(ARGV[2]) then
    return {1}
end

local answer = there and '1' .. there or '0'
if verb == 'insert' or (verb == 'absent' and not there) or (verb == 'replace' and there) then
    return once(KEYS[2], ARGV[1], answer, 'HSET', KEYS[1], ARGV[4], ARGV[5])
elseif verb == 'remove' and there then
    return once(KEYS[2], ARGV[1], answer, 'HDEL', KEYS[1], ARGV[4])
end
return answer
