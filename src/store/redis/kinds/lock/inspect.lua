-- lock/inspect: returns the holder of a lock.
--
--   KEYS[1]  lock    hash {owner: hold count}
--
--   {}                     the lock is free
--   {pttl, owner, count}   held for another pttl milliseconds (-1: without end)
--
-- Cost: PTTL and HSCAN.

local pttl = redis.call('PTTL', KEYS[1])
if pttl == -2 then
    return {}
end
return holder(KEYS[1], pttl)
