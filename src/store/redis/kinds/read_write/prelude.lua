-- read_write/prelude: returns holders of a read-write lock, and leases. Precedes its scripts.
--
--   {pttl, owner, count}   the writer, or one reader
--   left                   milliseconds until the last reader's lease ends; nothing if there are
--                          too many readers to look up, or the server denies it
--
-- If there are too many readers, 16 random ones are checked, and the expired ones of these are
-- removed.
--
-- Time: HLEN, HGETALL; HRANDFIELD and HDEL; a PTTL for each of up to 64 leases of 16 readers.

local MOST = 16
-- Redisson's readers have one lease for each entry.
local MOST_LEASES = 64

-- If the writer also has a read hold, the writer is returned.
local function in_the_way(lock, mode, pttl)
    local fields = mode == 'write' and redis.call('HGETALL', lock) or {}
    for i = 1, #fields, 2 do
        if string.sub(fields[i], -6) == ':write' then
            return {pttl, string.sub(fields[i], 1, 512), string.sub(fields[i + 1], 1, 20)}
        end
    end
    return holder(lock, pttl)
end

-- Returns the longest lease of a reader.
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

-- Removes expired readers among a few random ones: no other command removes them while others read.
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

