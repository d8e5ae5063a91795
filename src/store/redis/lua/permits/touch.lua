-- permits/touch: write a permit as it is, if it is held: replicas are told of something behind it.
--
--   KEYS[1]  held   zset {id of a permit: milliseconds since 1970 when its lease ends}
--   ARGV[1]  id     of the permit
--
--   1      it is there
--   0      it is not
--
-- A score that is set to what it was is not told to replicas: so it is another one in between. It
-- must not go meanwhile: what is empty loses the end that somebody has given it.
--
-- Time: ZSCORE, ZREM and two ZADD.

local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends then
    return 0
end
-- Begins to write, and changes nothing. A full server lets a script end what it has begun.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], 'XX', ends + 1, ARGV[1])
redis.call('ZADD', KEYS[1], 'XX', ends, ARGV[1])
return 1
