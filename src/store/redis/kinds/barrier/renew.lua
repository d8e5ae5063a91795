-- barrier/renew: renews many members of double barriers. Skips members that are not inside.
--
--   KEYS[2i-1]   inside      zset {member: millisecond until which it is inside}
--   KEYS[2i]     generation  counter of openings
--   ARGV[2i]     member      that renews
--   ARGV[2i+1]   lease       new lease in milliseconds; 0 only checks
--   ARGV[1]      idle        milliseconds until an unused counter expires
--
--   {o1, o2, …}  for each member 1 if it is inside, 0 if not
--
-- If a key has another type, its member counts as not inside, so the other members are still
-- renewed. Any other rejection ends the script. The counter is renewed, too, because barrier/left
-- compares the counter as long as members are inside.
--
-- Cost: TIME; ZSCORE, ZADD, PTTL and two PEXPIRE for each member.

local time, outcomes = redis.call('TIME'), {}
local now = time[1] * 1000 + math.floor(time[2] / 1000)

for i = 1, #KEYS / 2 do
    local inside, member, lease = KEYS[2 * i - 1], ARGV[2 * i], ARGV[2 * i + 1]
    local ends = redis.pcall('ZSCORE', inside, member)
    if type(ends) == 'table' then
        if not string.find(ends.err, 'WRONGTYPE', 1, true) then
            return ends
        end
        ends = false
    end
    outcomes[i] = ends and tonumber(ends) > now and 1 or 0
    if outcomes[i] == 1 and lease ~= '0' then
        redis.call('ZADD', inside, string.format('%.0f', now + lease), member)
        if redis.call('PTTL', inside) < tonumber(lease) then
            redis.call('PEXPIRE', inside, lease)
        end
        redis.pcall('PEXPIRE', KEYS[2 * i], ARGV[1])
    end
end

return outcomes
