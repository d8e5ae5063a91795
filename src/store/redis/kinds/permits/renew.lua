-- permits/renew: renews many holds of permits. Skips each hold that has lost a permit.
--
--   KEYS[i]     held   zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[at]    count  how many permits this hold has
--   ARGV[id]    id     of each of its permits
--   ARGV[last]  lease  new lease of this hold in milliseconds; 0 only checks. The next hold follows
--
--   {o1, o2, …}  for each hold 1 if all its permits are held, 0 if not
--
-- A claim of a queue is renewed like a hold of one permit, whose id is the owner.
--
-- An expired permit is not held, even if no script has counted it as free yet. A key of another
-- type counts as not held, so the other holds are still renewed. Any other rejection does not prove
-- a loss, so it ends the script.
--
-- Cost: TIME, and ZSCORE and ZADD for each permit; one ZREM for each hold.

local now, at, outcomes = clock(), 1, {}

for i, held in ipairs(KEYS) do
    local first, last = at + 1, at + 1 + ARGV[at]
    local lease, ours = ARGV[last], 1
    for id = first, last - 1 do
        local ends = redis.pcall('ZSCORE', held, ARGV[id])
        if type(ends) == 'table' then
            if not string.find(ends.err, 'WRONGTYPE', 1, true) then
                return ends
            end
            ends = nil
        end
        if not ends or tonumber(ends) <= now then
            ours = 0
        end
    end
    if ours == 1 and lease ~= '0' then
        begin(held)
        for id = first, last - 1 do
            redis.call('ZADD', held, 'XX', whole(now + lease), ARGV[id])
        end
    end
    outcomes[i] = ours
    at = last + 1
end

return outcomes
