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
-- Time: HDEL, DEL, HLEN and HGET; what it takes to know the longest lease of others.

local function free()
    redis.call('DEL', KEYS[1])
    if type(redis.pcall('PUBLISH', ARGV[2], '0')) == 'table' then
        return -1
    end
    return 0
end

-- First what shows whether we may: who has half left would not be heard again.
redis.call('DEL', KEYS[2])
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    local pttl = redis.call('PTTL', KEYS[1])
    return pttl == -2 and {} or in_the_way(KEYS[1], redis.call('HGET', KEYS[1], 'mode'), pttl)
end
if redis.call('HLEN', KEYS[1]) <= 1 then
    return free()
end
if redis.call('HGET', KEYS[1], 'mode') == 'read' then
    local left = longest_lease(KEYS[1], ARGV[3])
    if left == 0 then
        return free()
    elseif left then
        redis.pcall('PEXPIRE', KEYS[1], left)
    end
end
return 0
