-- lock/recount: set how many times the owner holds, if it does.
--
--   KEYS[1]  lock   hash {owner: hold count}
--   ARGV[1]  owner  who holds
--   ARGV[2]  count  how many times from now on
--   ARGV[3]  ttl    new lease in milliseconds; 0 leaves it as it is
--
--   1        done; asking again changes nothing
--   0        not held by this owner
--
-- Time: HEXISTS, HSET and PEXPIRE.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if ARGV[3] ~= '0' then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
