-- permits/release: releases permits.
--
--   KEYS[1]  counter  how many permits are free
--   KEYS[2]  held     zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  channel  on which the free permits are announced
--   ARGV[i]  id       of each permit, after the channel
--
--   1        all permits were held until now
--   0        a permit was not held, or its lease was over. The other permits are now free
--   -1, -2   like 1 and 0, but the server denied the announcement
--
-- Cost: TIME, and ZSCORE and ZREM for each permit; INCRBY and PUBLISH.

local now, all, there = clock(), 1, {}
for i = 2, #ARGV do
    local ends = redis.call('ZSCORE', KEYS[2], ARGV[i])
    if ends then
        there[#there + 1] = ARGV[i]
    end
    if not ends or tonumber(ends) <= now then
        all = 0
    end
end
if #there == 0 then
    return 0
end

begin(KEYS[2])
local free = redis.call('INCRBY', KEYS[1], #there)
for _, id in ipairs(there) do
    redis.call('ZREM', KEYS[2], id)
end
if announce(ARGV[1], free) then
    return all
end
return all - 2
