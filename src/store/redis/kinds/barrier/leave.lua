-- barrier/leave: removes a member that no longer waits.
--
--   KEYS[1]  members  zset {member: millisecond until which it counts}
--   ARGV[1]  member   that leaves
--
--   1   removed
--   0   it was not there: it has passed, or its time was over
--
-- Time: ZREM.

return redis.call('ZREM', KEYS[1], ARGV[1])
