-- delete: deletes a key of any type.
--
--   KEYS[1]  data
--
--   1        the key existed
--   0        the key did not exist
--
-- Cost: DEL.

return redis.call('DEL', KEYS[1])
