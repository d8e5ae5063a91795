-- permits/touch: rewrites a permit unchanged. A replica that acknowledges the write has the permit.
--
--   KEYS[1]  held   zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  id     of the permit
--
--   1      the permit is held
--   0      the permit is not held
--
-- Redis does not replicate a score that is set to its old value, so the script adds and removes
-- another member. It must not remove and add the permit, because the removal of the last member
-- deletes the key, and the exporting node of a migrating slot could not create the key again. The
-- first ZREM makes a full server accept the other writes of the script.
--
-- Cost: ZSCORE, ZADD and two ZREM.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    return 0
end
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], '0', '')
redis.call('ZREM', KEYS[1], '')
return 1
