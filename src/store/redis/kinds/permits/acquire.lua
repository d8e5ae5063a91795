-- permits/acquire: grants permits, or returns when the first lease ends.
--
--   KEYS[1]  counter  how many permits are free
--   KEYS[2]  held     zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  lease    in milliseconds
--   ARGV[2]  channel  on which expired permits are announced as free
--   ARGV[3]  id       of the first requested permit, unique to this acquisition
--   ARGV[i]  id       of each requested permit, including the first
--
--   id       all permits are granted. A repeated request with the same ids gets the same
--            grant and a fresh lease, so a lost reply is safe
--   {pttl}   too few permits are free; the first lease ends in pttl milliseconds. -1: no
--            lease ends. -2: no lease ends, and the number of permits is not set
--
-- Cost: TIME, GET, ZCOUNT, and ZSCORE and ZADD for each permit; INCRBY and PTTL.

local now = clock()
local free, regained, is_set = reap(KEYS[1], KEYS[2], now)
if not free then
    return regained
end

local missing = 0
for i = 3, #ARGV do
    if not redis.call('ZSCORE', KEYS[2], ARGV[i]) then
        missing = missing + 1
    end
end

if missing > free then
    if regained > 0 then
        announce(ARGV[2], free)
    end
    local first = redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')
    local ends = tonumber(first[2])
    return {ends and ends < NEVER and math.max(1, ends - now) or is_set and -1 or -2}
end

if missing > 0 then
    free = redis.call('INCRBY', KEYS[1], -missing)
else
    begin(KEYS[2])
end

local ends = whole(now + ARGV[1])
for i = 3, #ARGV do
    local added = redis.pcall('ZADD', KEYS[2], ends, ARGV[i])
    if type(added) == 'table' then
        -- The server can reject only the first ZADD. Without this INCRBY, the permits would be
        -- neither free nor held.
        redis.call('INCRBY', KEYS[1], missing)
        return added
    end
end

-- If another program gave the counter a TTL, KEYS[2] gets the same TTL.
local rest = redis.pcall('PTTL', KEYS[1])
if type(rest) == 'number' and rest > 0 then
    redis.pcall('PEXPIRE', KEYS[2], rest)
end
if regained > 0 then
    announce(ARGV[2], free)
end
return ARGV[3]
