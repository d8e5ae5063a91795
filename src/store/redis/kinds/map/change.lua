-- map/change: changes an entry of a map.
--
--   KEYS[1]  map        hash {key: value}
--   KEYS[2]  receipt    reply to this request, kept for a minute
--   ARGV[1]  rest       milliseconds for which the receipt is kept
--   ARGV[2]  longest    how many bytes the reply may have
--   ARGV[3]  verb       insert, absent, replace, compare, remove or matching
--   ARGV[4]  key        of the entry
--   ARGV[5]  value      the new value; empty for a removal
--   ARGV[6]  old        the value that compare and matching expect; else empty
--   ARGV[7]  field_ttl  milliseconds after which an inserted entry ends; 0 for never
--   ARGV[8]  topic      channel of Java's local caches; empty for no notice
--   ARGV[9]  notice     message that invalidates the entry there
--
--   0          there was no entry, or, for compare and matching, it had another value
--   1…         there was an entry; its earlier value follows the 1, except for compare and matching
--   {1}        the earlier value is longer than the longest reply. Nothing changed
--
-- If nothing changes, the script writes no receipt. So a repeated request may change something, and
-- then returns its own result.
--
-- Time: GET and HGET; SET and HSET or HDEL for a change; HPEXPIRE for a TTL; PUBLISH for a notice.

local before = replied(KEYS[2])
if before then
    return before
end

local function change(answer, ...)
    notify(ARGV[8], ARGV[9])
    return once(KEYS[2], ARGV[1], answer, ...)
end

local verb, there = ARGV[3], redis.call('HGET', KEYS[1], ARGV[4])

if verb == 'compare' or verb == 'matching' then
    if there ~= ARGV[6] then
        return '0'
    elseif verb == 'compare' then
        return change('1', 'HSET', KEYS[1], ARGV[4], ARGV[5])
    end
    return change('1', 'HDEL', KEYS[1], ARGV[4])
end

if there and #there > tonumber(ARGV[2]) then
    return {1}
end

-- The first call uses the receipt, which does not exist yet. This HPEXPIRE changes nothing; but if
-- the server does not know HPEXPIRE, or the ACL denies it, the script ends before the first change.
local function limited(key)
    if ARGV[7] ~= '0' then
        redis.call('HPEXPIRE', key, ARGV[7], 'FIELDS', 1, ARGV[4])
    end
end

local answer = there and '1' .. there or '0'
if verb == 'insert' or (verb == 'absent' and not there) or (verb == 'replace' and there) then
    limited(KEYS[2])
    local done = change(answer, 'HSET', KEYS[1], ARGV[4], ARGV[5])
    if done == answer then
        limited(KEYS[1])
    end
    return done
elseif verb == 'remove' and there then
    return change(answer, 'HDEL', KEYS[1], ARGV[4])
end
return answer
