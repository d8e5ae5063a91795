-- permits/lease: returns how long a permit is held, or extends its lease.
--
--   KEYS[1]  counter  how many permits are free
--   KEYS[2]  held     zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  channel  on which expired permits are announced as free
--   ARGV[2]  id       of the permit
--   ARGV[3]  lease    from now on at least, in milliseconds; 0 only checks
--
--   0      it is not held
--   n      it is held for another n milliseconds (-1: for ever)
--
-- The lease is never shortened, because the holder would trust it for longer than it lasts.
--
-- Time: TIME, GET, ZCOUNT, ZSCORE; ZREM and ZADD when it is set.

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
