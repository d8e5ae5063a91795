-- map/change: changes an entry of a map, or sets several entries.
--
--   KEYS[1]  map        hash {key: value}
--   KEYS[2]  receipt    reply to this request, kept for a minute
--   ARGV[1]  rest       milliseconds for which the receipt is kept
--   ARGV[2]  longest    how many bytes the reply may have
--   ARGV[3]  verb       insert, absent, replace, compare, remove, matching, add or many
--   ARGV[4]  key        of the entry
--   ARGV[5]  value      the new value; for add, the number to add; empty for a removal
--   ARGV[6]  old        the value that compare and matching expect; else empty
--   ARGV[7]  field_ttl  milliseconds after which an inserted entry ends; 0 for never
--   ARGV[8]  topic      channel of Java's local caches; empty for no notice
--   ARGV[9]  notice     message that invalidates the entries in these caches
--   ARGV     more       for many: further keys, each followed by its value
--
--   0          there was no entry; for compare and matching, also if it had another value
--   1…         there was an entry: its earlier value follows the 1. For add, the sum follows
--   1          changed, for compare, matching and many
--   {1}        the earlier value is longer than the longest reply. Nothing changed
--
-- If nothing changes, the script writes no receipt. So a repeated request may change something, and
-- then returns its own result.
--
-- Cost: GET, HGET; SET and HSET, HDEL or HINCRBY for a change; HPEXPIRE, PUBLISH if asked for.

local before = replied(KEYS[2])
if before then
    return before
end

-- PUBLISH comes first: if the ACL denies it, the script ends without a change. Clients receive the
-- message after the script has ended.
local function change(answer, ...)
    if ARGV[8] ~= '' then
        redis.call('PUBLISH', ARGV[8], ARGV[9])
    end
    return once(KEYS[2], ARGV[1], answer, ...)
end

local verb = ARGV[3]

if verb == 'many' then
    return change('1', 'HSET', KEYS[1], ARGV[4], ARGV[5], unpack(ARGV, 10))
elseif verb == 'add' then
    -- The receipt is empty until the sum is known. The script reads the sum as a text, because Lua
    -- represents whole numbers exactly only up to 2^53.
    local failed = change('', 'HINCRBY', KEYS[1], ARGV[4], ARGV[5])
    if failed ~= '' then
        return failed
    end
    local sum = '1' .. redis.call('HGET', KEYS[1], ARGV[4])
    redis.call('SET', KEYS[2], sum, 'PX', ARGV[1])
    return sum
end

local there = redis.call('HGET', KEYS[1], ARGV[4])
local answer = there and '1' .. there or '0'

if verb == 'compare' or verb == 'matching' then
    if there ~= ARGV[6] then
        return '0'
    end
    answer = '1'
elseif there and #there > tonumber(ARGV[2]) then
    return {1}
elseif verb == 'absent' and there or not there and (verb == 'replace' or verb == 'remove') then
    return answer
end

if verb == 'remove' or verb == 'matching' then
    return change(answer, 'HDEL', KEYS[1], ARGV[4])
end

-- Sets the TTL of the entry in the hash `key`, if an entry with a TTL is requested. The first call
-- passes the receipt, which does not exist yet, so this call changes nothing. But if the server
-- does not know HPEXPIRE, or the ACL denies it, the script ends here, before the first change.
local function limited(key)
    if ARGV[7] ~= '0' then
        redis.call('HPEXPIRE', key, ARGV[7], 'FIELDS', 1, ARGV[4])
    end
end

limited(KEYS[2])
local done = change(answer, 'HSET', KEYS[1], ARGV[4], ARGV[5])
if done == answer then
    limited(KEYS[1])
end
return done
