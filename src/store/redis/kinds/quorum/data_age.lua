-- quorum/data_age: returns for how long a server of a quorum has had its data.
--
-- If a server restarts without its data, it also loses the key with this time.
--
--   KEYS[1]  since    string without a TTL: millisecond since which the server has had its data;
--                     0 means always
--   ARGV[1]  trusted  a time, or -1: if the key has exactly this time, 0 replaces it
--
--   {age, since}  for how many milliseconds the server has had its data, and the stored time. If no
--                 time was stored, the script stores the present time
--
-- Cost: TIME, GET; SET for a new server, and for a trusted one.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(redis.call('GET', KEYS[1]) or nil)
local trusted = since == tonumber(ARGV[1])
-- If the stored time is in the future, the clock was set back, and this time says nothing.
if trusted or not since or since > now then
    since = trusted and 0 or now
    redis.call('SET', KEYS[1], string.format('%.0f', since))
end
return {now - since, since}
