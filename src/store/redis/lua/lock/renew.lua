-- lock/renew: prolong many holds, each only if it is still its owner's.
--
--   KEYS[i]      lock   hash {owner: hold count}
--   ARGV[2i-1]   owner  who holds KEYS[i]
--   ARGV[2i]     ttl    new lease in milliseconds; 0 only looks
--
--   {o1, o2, …}  for each key 1 if it is held by its owner, 0 if not
--
-- A key of another type is not held by anybody: it must not spoil the others.
--
-- Time: HEXISTS and PEXPIRE for each key.

local outcomes = {}

for i, lock in ipairs(KEYS) do
    local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
    outcomes[i] = 0
    if redis.pcall('HEXISTS', lock, owner) == 1 then
        outcomes[i] = 1
        if ttl ~= '0' then
            redis.call('PEXPIRE', lock, ttl)
        end
    end
end

return outcomes
