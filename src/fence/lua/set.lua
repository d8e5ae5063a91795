-- set: writes a string.
--
--   KEYS[1]  data   of any type, which is replaced
--   ARGV[1]  value
--
--   {OK}     written. The key has no TTL any more
--
-- Time: SET.

return redis.call('SET', KEYS[1], ARGV[1])
