-- delete: delete a key, of whatever type.
--
--   KEYS[1]  data
--
--   1        it was there
--   0        it was not
--
-- Time: DEL.

return redis.call('DEL', KEYS[1])
