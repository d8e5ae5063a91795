-- read_write/leave: removes a reader. After the last reader, frees the lock and notifies waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   KEYS[2]  lease    string; lives as long as the lease of this reader
--   ARGV[1]  owner    of the read hold
--   ARGV[2]  channel  on which the free lock is announced
--   ARGV[3]  prefix   of the leases of other readers
--
--   0                      the read hold is released
--   -1                     the same, but the server denied the announcement
--   {}                     this owner was not a reader, and no owner holds the lock
--   {pttl, owner, count}   this owner was not a reader, and this other owner holds the lock
--
-- The TTL of the lock becomes the longest lease of the remaining readers. If there are too many
-- readers to look up, the TTL stays as it is.
--
-- Cost: HDEL, DEL, HLEN and HGET; the cost of `longest_lease` if other readers remain.

local function free()
    redis.call('DEL', KEYS[1])
    if type(redis.pcall('PUBLISH', ARGV[2], '0')) == 'table' then
        return -1
    end
    return 0
end

-- DEL comes before HDEL, because the script ends if the ACL denies DEL. After HDEL, a repeated
-- request would no longer find the reader.
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
