-- permits/touch: writes a permit again, unchanged. A replica that acknowledges this write has it.
--
--   KEYS[1]  held   zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  id     of the permit
--
--   1      the permit is held
--   0      the permit is not held
--
-- Redis does not replicate a score that is set to its old value, so the script adds and removes
-- another member. It never removes the permit, because the removal of the last member deletes the
-- key, and the exporting node of a migrating slot could not create the key again. The first ZREM is
-- there because a full server accepts the other writes of a script after a ZREM.
--
-- Time: ZSCORE, ZADD and two ZREM.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    return 0
end
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], '0', '')
redis.call('ZREM', KEYS[1], '')
return 1
