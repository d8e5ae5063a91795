-- lock/inspect: say who holds a lock.
--
--   KEYS[1]  lock    hash {owner: hold count}
--
--   {}               nobody
--   {pttl, fields}   held for another pttl milliseconds (-1: without end)
--
-- Time: PTTL and HGETALL.

local ttl = redis.call('PTTL', KEYS[1])
if ttl == -2 then
    return {}
end
return {ttl, redis.call('HGETALL', KEYS[1])}
