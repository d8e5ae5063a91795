-- permits/touch: writes a permit again without a change, so that replicas receive a write after it.
--
--   KEYS[1]  held   zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  id     of the permit
--
--   1      it exists
--   0      it does not
--
-- Redis does not replicate a score that is set to its old value, so the script adds and removes
-- another member. The permit stays meanwhile: if the last member were removed, the key would be
-- deleted, and could not be written again on the exporting node of a migrating slot. A full server
-- lets a script end that has begun to write.
--
-- Time: ZSCORE, ZADD and two ZREM.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    return 0
end
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], '0', '')
redis.call('ZREM', KEYS[1], '')
return 1
