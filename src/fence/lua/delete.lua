-- delete: deletes a key, whatever its type.
--
--   KEYS[1]  data
--
--   1        it existed
--   0        it did not
--
-- Time: DEL.

return redis.call('DEL', KEYS[1])
