-- set: writes a string.
--
--   KEYS[1]  data   a key of any type, which is replaced
--   ARGV[1]  value
--
--   {OK}     written. SET has removed an earlier TTL of the key
--
-- Cost: SET.

return redis.call('SET', KEYS[1], ARGV[1])
