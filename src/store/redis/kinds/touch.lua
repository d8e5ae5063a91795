-- touch: writes a hold again, unchanged. A replica that acknowledges this write has the hold.
--
--   KEYS[1]  hash   with the hold as a field
--   KEYS[2]  other  another key of the hold, if it has one
--   ARGV[1]  field  the hold
--
--   1      the hold exists
--   0      the hold does not exist
--
-- Cost: HGET and HSET; EXISTS.

local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value or KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], value)
return 1
