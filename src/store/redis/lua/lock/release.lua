-- lock/release: take the hold from its owner, whatever its count, and tell the waiters.
--
--   KEYS[1]  lock     hash {owner: hold count}
--   ARGV[1]  owner    who gives back
--   ARGV[2]  channel  where to say so; empty to say nothing
--
--   1                was held, is free
--   2                the same, but the server refused to say so on the channel
--   {}               not held by this owner, nor by anybody
--   {pttl, fields}   not held by this owner, but by another
--
-- Nothing here needs memory, so it also works on a server that has none left.
--
-- Time: HDEL and PUBLISH when held; HDEL, PTTL and HGETALL when not.

if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
    -- The hold is gone, whatever becomes of the message.
    if ARGV[2] ~= '' and type(redis.pcall('PUBLISH', ARGV[2], '0')) == 'table' then
        return 2
    end
    return 1
end

local ttl = redis.call('PTTL', KEYS[1])
if ttl == -2 then
    return {}
end
return {ttl, redis.call('HGETALL', KEYS[1])}
