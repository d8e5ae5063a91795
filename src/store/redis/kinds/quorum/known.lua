-- quorum/known: returns for how long this server has known the name of a quorum lock.
--
-- A server that came back without its data does not know the name.
--
--   KEYS[1]  since    string: millisecond since which the server knows the name; 0 is always
--   ARGV[1]  rest     milliseconds until the key of an unused name expires
--   ARGV[2]  trusted  1 notes that it always knew the name: a majority of the servers does not,
--                     so the name is new
--
--   0 or more   for how many milliseconds the server has known the name
--   -1          the server did not know the name; from now on it does
--
-- Time: TIME, GET, and SET or PEXPIRE.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(redis.call('GET', KEYS[1]) or nil)

if ARGV[2] == '1' then
    redis.call('SET', KEYS[1], '0', 'PX', ARGV[1])
    return now
elseif not since then
    redis.call('SET', KEYS[1], string.format('%.0f', now), 'PX', ARGV[1])
    return -1
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
-- The clock may have been set back.
return math.max(now - since, 0)
