-- read_write/prelude: reads the holders and leases of a read-write lock. Precedes other scripts.
--
--   {pttl, owner, count}   of `in_the_way`: the writer, or one reader
--   left                   of `longest_lease`: milliseconds until the last lease of a reader ends;
--                          nil if there are too many readers to look up, or the server denies PTTL
--
-- If there are more than 16 readers, `sweep` checks 16 random readers, and removes those whose
-- leases have ended.
--
-- Cost: HLEN, HGETALL; HRANDFIELD and HDEL; a PTTL for each of up to 64 leases of 16 readers.

local MOST = 16
-- A reader of Redisson has one lease for each time that it has acquired.
local MOST_LEASES = 64

-- Returns a holder that prevents a grant: a reader or the writer. If the writer also has a read
-- hold, returns the write hold.
local function in_the_way(lock, mode, pttl)
    local fields = mode == 'write' and redis.call('HGETALL', lock) or {}
    for i = 1, #fields, 2 do
        if string.sub(fields[i], -6) == ':write' then
            return {pttl, string.sub(fields[i], 1, 512), string.sub(fields[i + 1], 1, 20)}
        end
    end
    return holder(lock, pttl)
end

-- Returns how many milliseconds the last lease of a reader lasts, or nil if the server denies PTTL.
local function lease(prefix, owner, count)
    local longest = 0
    for i = 1, count do
        local key = prefix .. ':' .. owner .. ':rwlock_timeout:' .. string.format('%d', i)
        local left = redis.pcall('PTTL', key)
        if type(left) == 'table' then
            return nil
        end
        longest = math.max(longest, left)
    end
    return longest
end

-- Returns the readers among these fields, as {owner, count}, and the number of their leases.
local function readers(fields)
    local found, leases = {}, 0
    for i = 1, #fields, 2 do
        if fields[i] ~= 'mode' then
            local count = math.max(math.floor(tonumber(fields[i + 1]) or 0), 0)
            found[#found + 1] = {fields[i], count}
            leases = leases + count
        end
    end
    return found, leases
end

-- Checks a few random readers, and removes the expired readers. While other readers hold the lock,
-- no other command removes an expired reader.
local function sweep(lock, prefix)
    local fields, looked_at = redis.pcall('HRANDFIELD', lock, MOST + 1, 'WITHVALUES'), 0
    for i, reader in ipairs(not fields.err and readers(fields) or {}) do
        looked_at = looked_at + reader[2]
        if i > MOST or not (looked_at <= MOST_LEASES) then
            return
        elseif lease(prefix, reader[1], reader[2]) == 0 then
            redis.call('HDEL', lock, reader[1])
        end
    end
end

local function longest_lease(lock, prefix)
    if redis.call('HLEN', lock) > MOST + 1 then
        return sweep(lock, prefix)
    end
    local found, leases = readers(redis.call('HGETALL', lock))
    if not (leases <= MOST_LEASES) then
        return nil
    end
    local longest = 0
    for _, reader in ipairs(found) do
        local left = lease(prefix, reader[1], reader[2])
        if not left then
            return nil
        end
        longest = math.max(longest, left)
    end
    return longest
end

