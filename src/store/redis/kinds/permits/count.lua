-- permits/count: returns the number of permits.
--
--   KEYS[1]  counter  how many permits are free
--   KEYS[2]  held     zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  channel  on which expired permits are announced as free
--
--   {free, held, set}   set is 0 if the number of permits is not set
--
-- Cost: TIME, GET, ZCOUNT, ZCARD and EXISTS.

local free, regained = reap(KEYS[1], KEYS[2], clock())
if not free then
    return regained
end
if regained > 0 then
    announce(ARGV[1], free)
end
return {free, redis.call('ZCARD', KEYS[2]), redis.call('EXISTS', KEYS[1])}
