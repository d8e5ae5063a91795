-- quorum/known: returns for how long a server of a quorum has had data.
--
-- A server that came back without its data has no such key.
--
--   KEYS[1]  since  string: millisecond since which the server has data; 0 is always. No TTL
--   ARGV[1]  how    `look` changes nothing; `note` begins now, if there is no time yet;
--                   `trust` notes that the server always had data
--
--   0 or more   for how many milliseconds it has had data
--   -1          unknown
--
-- Time: TIME, GET, and SET unless it only looks.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(redis.call('GET', KEYS[1]) or nil)

if ARGV[1] == 'trust' then
    since = 0
    redis.call('SET', KEYS[1], '0')
elseif ARGV[1] == 'note' and not since then
    since = now
    redis.call('SET', KEYS[1], string.format('%.0f', now))
end
-- The clock may have been set back.
return since and math.max(now - since, 0) or -1
