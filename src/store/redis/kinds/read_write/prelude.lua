-- read_write/prelude: say who has a read-write lock, and for how long. Stands before its scripts.
--
--   {pttl, owner, count}   the one who writes, or one who reads
--   left                   for how many milliseconds those yet read who are left; nothing if
--                          they are too many to be looked up, or the server does not let us
--
-- Of too many those are deleted whose lease is over, if they are among 16 by chance.
--
-- Time: HLEN, HGETALL; HRANDFIELD and HDEL; a PTTL for each of up to 64 leases of 16 readers.

local MOST = 16
-- Each time that Redisson's reader has entered it has a lease.
local MOST_LEASES = 64

-- Who writes is named before its own readers.
local function in_the_way(lock, mode, pttl)
    local fields = mode == 'write' and redis.call('HGETALL', lock) or {}
    for i = 1, #fields, 2 do
        if string.sub(fields[i], -6) == ':write' then
            return {pttl, string.sub(fields[i], 1, 512), string.sub(fields[i + 1], 1, 20)}
        end
    end
    return holder(lock, pttl)
end

-- The longest lease of a reader.
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

-- The readers among these fields, as {owner, count}, and how many leases they have together.
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

-- Lets those go whose lease is over, of a few by chance: nobody else does while others read.
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

