-- map/add: adds to the number in an entry of a map.
--
--   KEYS[1]  map      hash {key: number}
--   KEYS[2]  receipt  reply to this request, kept for a minute
--   ARGV[1]  rest     milliseconds for which the receipt is kept
--   ARGV[2]  key      of the entry
--   ARGV[3]  number   to add
--   ARGV[4]  topic    channel of Java's local caches; empty for no notice
--   ARGV[5]  notice   message that invalidates the entry there
--
--   0, -7, 42, …   the sum, as text, because Lua represents whole numbers exactly only to 2^53
--
-- The script writes the receipt before the map: if the server rejects writes, the script ends
-- there. The receipt is empty until the sum is known.
--
-- Time: GET, SET, HINCRBY, HGET and SET; PUBLISH for a notice.

local before = replied(KEYS[2])
if before then
    return before
end

notify(ARGV[4], ARGV[5])
redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
redis.call('HINCRBY', KEYS[1], ARGV[2], ARGV[3])
local sum = redis.call('HGET', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], sum, 'PX', ARGV[1])
return sum
