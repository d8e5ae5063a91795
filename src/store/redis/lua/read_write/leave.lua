-- read_write/leave: let a reader out. The last one frees the lock and tells the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count}
--   KEYS[2]  lease    string; lives as long as the lease of this reader
--   ARGV[1]  owner    who reads
--   ARGV[2]  channel  where to say that the lock is free
--   ARGV[3]  prefix   how the leases of other readers begin
--
--   0                      out
--   -1                     the same, but the server refused to say so on the channel
--   {}                     did not read, and nobody has the lock
--   {pttl, owner, count}   did not read
--
-- The lock lives as long as the leases of those who are left. Where there are many leases
-- that is not looked up: then it lives as long as before.
--
-- Time: HDEL, DEL and HLEN; HGETALL and a PTTL for each of up to 16 leases of others.

local MOST = 16

-- The longest lease of a reader: each time that it entered it has one.
local function lease(owner, count)
    local longest = 0
    for i = 1, count do
        local key = ARGV[3] .. ':' .. owner .. ':rwlock_timeout:' .. string.format('%d', i)
        longest = math.max(longest, redis.call('PTTL', key))
    end
    return longest
end

-- The longest lease of all that are left; nothing if it is better not looked up.
local function longest_lease()
    if redis.call('HLEN', KEYS[1]) > MOST + 1 then
        return nil
    end
    local fields, longest, leases = redis.call('HGETALL', KEYS[1]), 0, 0
    for i = 1, #fields, 2 do
        local count = math.floor(tonumber(fields[i + 1]) or 0)
        leases = leases + math.max(count, 0)
        if not (leases <= MOST) then
            return nil
        end
        longest = math.max(longest, lease(fields[i], count))
    end
    return longest
end

local function free()
    redis.call('DEL', KEYS[1])
    if type(redis.pcall('PUBLISH', ARGV[2], '0')) == 'table' then
        return -1
    end
    return 0
end

if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    local pttl = redis.call('PTTL', KEYS[1])
    return pttl == -2 and {} or holder(KEYS[1], pttl)
end
redis.call('DEL', KEYS[2])
if redis.call('HLEN', KEYS[1]) <= 1 then
    return free()
end
if redis.call('HGET', KEYS[1], 'mode') == 'read' then
    local left = longest_lease()
    if left == 0 then
        return free()
    elseif left then
        redis.call('PEXPIRE', KEYS[1], left)
    end
end
return 0
