-- election/renew: renews many leaders and their records. Skips owners that no longer lead.
--
--   KEYS[2i-1]   lock    hash {owner: hold count}
--   KEYS[2i]     record  hash {owner, term, value, since}
--   ARGV[2i-1]   owner   of the leader
--   ARGV[2i]     ttl     new lease in milliseconds; 0 only checks
--
--   {o1, o2, …}  for each lock 1 if its owner holds it, 0 if not
--
-- As in lock/renew, a key of another type counts as not held, and any other rejection ends the
-- script. If a record is missing or cannot be renewed, its owner still leads.
--
-- Cost: HEXISTS and two PEXPIRE for each lock.

local outcomes = {}

for i = 1, #KEYS / 2 do
    local lock, owner, ttl = KEYS[2 * i - 1], ARGV[2 * i - 1], ARGV[2 * i]
    local held = redis.pcall('HEXISTS', lock, owner)
    if type(held) == 'table' then
        if not string.find(held.err, 'WRONGTYPE', 1, true) then
            return held
        end
        held = 0
    end
    if held == 1 and ttl ~= '0' then
        redis.call('PEXPIRE', lock, ttl)
        redis.pcall('PEXPIRE', KEYS[2 * i], ttl)
    end
    outcomes[i] = held
end

return outcomes
