-- queue/renew: renews many claims. Skips expired claims.
--
--   KEYS[i]       claimants  zset {owner: milliseconds since 1970 when its lease ends}
--   ARGV[2i - 1]  owner      of the claim
--   ARGV[2i]      lease      new lease in milliseconds; 0 only checks
--
--   {o1, o2, …}  for each key 1 if the owner has its claim, 0 if not
--
-- An expired claim is over, even if its element has not yet gone back. If a key has another type,
-- its claim counts as lost, so the other claims are still renewed. Any other rejection does not
-- prove a loss, so it ends the script.
--
-- Time: TIME, and ZSCORE and ZADD for each claim.

local now, outcomes = clock(), {}
for i, claimants in ipairs(KEYS) do
    local owner, lease = ARGV[2 * i - 1], ARGV[2 * i]
    local ends = redis.pcall('ZSCORE', claimants, owner)
    if type(ends) == 'table' then
        if not string.find(ends.err, 'WRONGTYPE', 1, true) then
            return ends
        end
        ends = nil
    end
    local held = ends and tonumber(ends) > now
    if held and lease ~= '0' then
        redis.call('ZADD', claimants, 'XX', string.format('%.0f', now + lease), owner)
    end
    outcomes[i] = held and 1 or 0
end
return outcomes
