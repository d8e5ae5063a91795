-- lock/renew: renews many holds. Skips each hold that its owner no longer has.
--
--   KEYS[i]      lock   hash {owner: hold count}
--   ARGV[2i-1]   owner  of KEYS[i]
--   ARGV[2i]     ttl    new lease in milliseconds; 0 only checks
--
--   {o1, o2, …}  for each key 1 if its owner holds it, 0 if not. A check returns how many
--                milliseconds of the lease are left, or 1 if the lease does not end. After a failover
--                has lost a hold, the field of its owner may be only a reservation
--
-- A key of another type counts as not held, so the other holds are still renewed. Any other
-- rejection does not prove a loss, so it ends the script.
--
-- Cost: HEXISTS and PEXPIRE for each key; a check costs HEXISTS and PTTL.

local outcomes = {}

for i, lock in ipairs(KEYS) do
    local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
    local held = redis.pcall('HEXISTS', lock, owner)
    if type(held) == 'table' then
        if not string.find(held.err, 'WRONGTYPE', 1, true) then
            return held
        end
        held = 0
    end
    if held == 1 and ttl ~= '0' then
        redis.call('PEXPIRE', lock, ttl)
    elseif held == 1 then
        held = math.max(1, redis.call('PTTL', lock))
    end
    outcomes[i] = held
end

return outcomes
