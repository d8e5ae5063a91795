-- holder: returns the holder of an exclusive lock. Precedes the scripts that return a holder.
--
--   owner, count           the result of `holder_of`; nothing if the key does not exist
--   {pttl, owner, count}   the result of `holder`
--
-- If another program wrote the hash, both functions return one of its fields, cut to 512 bytes.
--
-- Cost: HSCAN, which returns all fields of a small hash, and a few fields of a large hash.

local function holder_of(lock)
    local page = redis.call('HSCAN', lock, '0', 'COUNT', '1')
    local cursor, fields = page[1], page[2]
    if cursor == '0' and not fields[1] then
        return nil
    end
    -- In Redisson's read-write lock, the field `mode` is not an owner.
    local first = fields[1] == 'mode' and fields[3] and 3 or 1
    local owner, count = fields[first] or '?', fields[first + 1] or '0'
    return string.sub(owner, 1, 512), string.sub(count, 1, 20)
end

local function holder(lock, pttl)
    local owner, count = holder_of(lock)
    return {pttl, owner or '?', count or '0'}
end

