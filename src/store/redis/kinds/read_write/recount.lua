-- read_write/recount: set how many times the owner writes, if it does.
--
--   KEYS[1]  lock    hash {mode: read or write, reader: hold count, owner:write: hold count}
--   ARGV[1]  writer  who writes, as a writer
--   ARGV[2]  count   how many times from now on
--   ARGV[3]  ttl     new lease in milliseconds; 0 leaves it as it is
--
--   1        done; asking again changes nothing
--   0        not written by this owner
--
-- Time: HEXISTS, HSET, PTTL and PEXPIRE.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
-- One that reads beside may have a longer lease.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
