-- touch: write a hold as it is, if it is there: then replicas are told of something behind it.
--
--   KEYS[1]  hash   one of its fields is the hold
--   KEYS[2]  other  what else there must be of it, if that is not all
--   ARGV[1]  field  the hold
--
--   1      it is there
--   0      it is not
--
-- Time: HGET and HSET; EXISTS.

local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value or KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], value)
return 1
