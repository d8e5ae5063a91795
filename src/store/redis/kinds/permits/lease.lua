-- permits/lease: returns how long a permit is held, or extends its lease.
--
--   KEYS[1]  counter  how many permits are free
--   KEYS[2]  held     zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  channel  on which expired permits are announced as free
--   ARGV[2]  id       of the permit
--   ARGV[3]  lease    minimum of the remaining lease, in milliseconds; 0 only checks
--
--   0      the permit is not held
--   n      the permit is held for another n milliseconds (-1: for ever)
--
-- The lease never becomes shorter, because the holder may still rely on the longer lease.
--
-- Cost: TIME, GET, ZCOUNT, ZSCORE; ZREM and ZADD unless ARGV[3] is 0.

local now = clock()
local free, regained = reap(KEYS[1], KEYS[2], now)
if not free then
    return regained
end
if regained > 0 then
    announce(ARGV[1], free)
end

local ends = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or nil)
if not ends then
    return 0
end
if ARGV[3] ~= '0' then
    ends = math.max(ends, now + ARGV[3])
    begin(KEYS[2])
    redis.call('ZADD', KEYS[2], 'XX', whole(ends), ARGV[2])
end
return ends < NEVER and ends - now or -1
