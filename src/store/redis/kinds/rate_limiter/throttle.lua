-- rate_limiter/throttle: admits work at an even pace, by the generic cell rate algorithm.
--
--   KEYS[1]  throttle  `TIME:ID`: TIME is the microsecond since 1970 at which the whole burst is
--                      free again; ID is the id of the request that was granted last
--   ARGV[1]  permits   number of permits, at least one
--   ARGV[2]  burst     number of permits that can be granted at once
--   ARGV[3]  spacing   microseconds from one permit to the next
--   ARGV[4]  id        32 hexadecimal digits of this request
--
--   {wait, debt}   `wait` is 0 if the request is granted, otherwise the microseconds until it can
--                  be granted; `debt` is the microseconds until the whole burst is free
--   {err}          DAMAGED: the text has an unknown form
--
-- The stored time can be at most one whole burst after now. If it is later, because the clock was
-- set back or the burst was larger before, the script lowers it to that limit.
--
-- Cost: TIME and GET; SET if the request is granted.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full, last = string.match(redis.call('GET', KEYS[1]) or '0:', '^(%d+):(%x*)$')
if not full then
    return redis.error_reply('DAMAGED ' .. KEYS[1] .. ' cannot be read; delete it')
end

local burst = ARGV[2] * ARGV[3]
local function note(at, id)
    redis.call('SET', KEYS[1], string.format('%.0f:%s', at, id), 'PX',
        string.format('%.0f', math.ceil((at - now) / 1000)))
end

full = tonumber(full)
if full > now + burst then
    full = now + burst
    note(full, last)
end
full = math.max(full, now)
if last == ARGV[4] then
    return {0, full - now}
end

local after = full + ARGV[1] * ARGV[3]
local wait = after - now - burst
if wait > 0 then
    return {wait, full - now}
end

note(after, ARGV[4])
return {0, after - now}
