-- map/insert_many: sets entries of a map.
--
--   KEYS[1]    map      hash {key: value}
--   KEYS[2]    receipt  of this request, kept for a minute
--   ARGV[1]    rest     milliseconds for which the receipt is kept
--   ARGV[2]    topic    channel of Java's local caches; empty for no notice
--   ARGV[3]    notice   message that invalidates the entries there
--   ARGV[4]    key      of the first entry
--   ARGV[5]    value    of that entry
--   ARGV[i]    key      of another entry
--   ARGV[i+1]  value    of that entry
--
--   1   the entries are set
--
-- Because of the receipt, a repeated request does not overwrite what another client has written
-- meanwhile.
--
-- Time: GET, SET and HSET of each entry; PUBLISH for a notice.

local before = replied(KEYS[2])
if before then
    return before
end

notify(ARGV[2], ARGV[3])
local done = once(KEYS[2], ARGV[1], '1', 'HSET', KEYS[1], ARGV[4], ARGV[5])
for i = 6, done == '1' and #ARGV or 0, 2 do
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
return done
