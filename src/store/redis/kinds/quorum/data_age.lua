-- quorum/data_age: returns for how long a server of a quorum has had data.
--
-- If a server restarts without its data, it also loses the key with this time.
--
--   KEYS[1]  since  string without a TTL: millisecond since which the server has had its data;
--                   0 means always
--   ARGV[1]  how    `read` changes nothing; `note` stores the current time, unless a time is
--                   stored; `trust` stores 0
--
--   0 or more   for how many milliseconds the server has had data
--   -1          unknown
--
-- Cost: TIME, GET; SET for `note` and `trust`.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(redis.call('GET', KEYS[1]) or nil)
-- If the stored time is in the future, the clock was set back, and this time says nothing.
if since and since > now then
    since = nil
end

if ARGV[1] == 'trust' then
    since = 0
    redis.call('SET', KEYS[1], '0')
elseif ARGV[1] == 'note' and not since then
    since = now
    redis.call('SET', KEYS[1], string.format('%.0f', now))
end
return since and now - since or -1
