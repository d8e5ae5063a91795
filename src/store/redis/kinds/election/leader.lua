-- election/leader: returns the leader.
--
--   KEYS[1]  lock    hash {owner: hold count}
--   KEYS[2]  record  hash {owner, term, value, since}
--
--   {}                                  no owner leads
--   {pttl, owner}                       this owner leads, and has not written a record: a Redisson
--                                       client, or a leader that has just won
--   {pttl, owner, term, value, since}   this owner leads, and has written this record
--
-- If the owner of a record does not hold the lock, the record is ignored.
--
-- Cost: HSCAN, PTTL and HMGET.

local owner = holder_of(KEYS[1])
if not owner then
    return {}
end
local pttl = redis.call('PTTL', KEYS[1])
local record = redis.call('HMGET', KEYS[2], 'owner', 'term', 'value', 'since')
if record[1] ~= owner then
    return {pttl, owner}
end
return {pttl, owner, record[2], record[3], record[4]}
