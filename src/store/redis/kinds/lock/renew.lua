-- lock/renew: renews many holds, each only if its owner still has it.
--
--   KEYS[i]      lock   hash {owner: hold count}
--   ARGV[2i-1]   owner  of KEYS[i]
--   ARGV[2i]     ttl    new lease in milliseconds; 0 only checks
--
--   {o1, o2, …}  for each key 1 if it is held by its owner, 0 if not
--
-- A key of another type counts as not held, so that it does not affect the others. Any other
-- rejection proves no loss, and ends the script.
--
-- Time: HEXISTS and PEXPIRE for each key.

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
    end
    outcomes[i] = held
end

return outcomes
