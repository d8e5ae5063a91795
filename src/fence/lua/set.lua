-- set: write a text.
--
--   KEYS[1]  data   of any type, which is replaced
--   ARGV[1]  value
--
--   {OK}     written. A time to live is gone
--
-- Time: SET.

return redis.call('SET', KEYS[1], ARGV[1])
