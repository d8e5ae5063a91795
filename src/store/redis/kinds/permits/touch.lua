-- permits/touch: write a permit as it is, if it is held: replicas are told of something behind it.
--
--   KEYS[1]  held   zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  id     of the permit
--
--   1      it is there
--   0      it is not
--
-- A score that is set to what it was is not told to replicas: so something else comes, and goes.
-- The permit stays meanwhile: the last one takes the key along, which cannot be written again where
-- its slot is on its way to another node. A full server lets a script end what it has begun.
--
-- Time: ZSCORE, ZADD and two ZREM.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    return 0
end
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], '0', '')
redis.call('ZREM', KEYS[1], '')
return 1
