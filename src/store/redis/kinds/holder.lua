-- holder: say who holds an exclusive lock. Stands before the scripts that answer so.
--
--   {pttl, owner, count}   held for another pttl milliseconds (-1: without end). Of a
--                          hash that is no such lock: one of its fields, cut short
--
-- Time: HLEN and HGETALL; HSCAN of a few fields when there are many.

local function holder(lock, pttl)
    local fields
    if redis.call('HLEN', lock) <= 8 then
        fields = redis.call('HGETALL', lock)
    else
        fields = redis.call('HSCAN', lock, '0', 'COUNT', '1')[2]
    end
    -- Redisson's read-write lock keeps its mode beside its owners.
    local first = fields[1] == 'mode' and fields[3] and 3 or 1
    local owner, count = fields[first] or '?', fields[first + 1] or '0'
    return {pttl, string.sub(owner, 1, 512), string.sub(count, 1, 20)}
end

