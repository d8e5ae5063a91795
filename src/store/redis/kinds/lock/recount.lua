-- lock/recount: sets the hold count of the owner, if it holds the lock.
--
--   KEYS[1]  lock   hash {owner: hold count}
--   ARGV[1]  owner  of the hold
--   ARGV[2]  count  the new hold count
--   ARGV[3]  ttl    new lease in milliseconds; 0 keeps the old lease
--
--   1        done; a repeated request changes nothing
--   0        not held by this owner
--
-- Cost: HEXISTS, HSET and PEXPIRE.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] ~= '0' then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
