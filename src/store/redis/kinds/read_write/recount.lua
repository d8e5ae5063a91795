-- read_write/recount: sets the hold count of a writer, if this writer holds the lock.
--
--   KEYS[1]  lock    hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   ARGV[1]  writer  the field of the writer
--   ARGV[2]  count   the new hold count
--   ARGV[3]  ttl     new lease in milliseconds; 0 keeps the old lease
--
--   1        done; a repeated request changes nothing
--   0        not held by this writer
--
-- Cost: HEXISTS, HSET, PTTL and PEXPIRE.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
-- A read hold of the same owner may have a longer lease, which must not become shorter.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
