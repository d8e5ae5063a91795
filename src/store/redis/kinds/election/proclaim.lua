-- election/proclaim: writes the record of a leader, if it still leads.
--
--   KEYS[1]  lock     hash {owner: hold count}
--   KEYS[2]  record   hash {owner, term, value, since}. Only believed while its owner is in the
--                     hash of the lock: see election/leader
--   ARGV[1]  owner    of the leader
--   ARGV[2]  term     its fencing token
--   ARGV[3]  value    that it proclaims
--   ARGV[4]  ttl      milliseconds until the record expires, unless a renewal comes
--   ARGV[5]  channel  on which `1` announces the record to observers
--
--   1   written
--   0   not held by this owner: nothing is written
--
-- A repeated request writes the same, and keeps the time since when the owner leads.
--
-- Time: HEXISTS, HMGET, TIME, DEL, HSET, PEXPIRE and PUBLISH.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

local before = redis.pcall('HMGET', KEYS[2], 'owner', 'term', 'since')
local since = before[1] == ARGV[1] and before[2] == ARGV[2] and before[3]
if not since then
    local time = redis.call('TIME')
    since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'owner', ARGV[1], 'term', ARGV[2], 'value', ARGV[3], 'since', since)
local lease = redis.pcall('PEXPIRE', KEYS[2], ARGV[4])
if type(lease) == 'table' then
    -- A record without a TTL must not stay.
    redis.call('DEL', KEYS[2])
    return lease
end
redis.pcall('PUBLISH', ARGV[5], '1')
return 1
