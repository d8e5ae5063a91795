-- election/proclaim: writes the record of a leader, if this owner still leads.
--
--   KEYS[1]  lock     hash {owner: hold count}
--   KEYS[2]  record   hash {owner, term, value, since}. It counts only while its owner holds the
--                     lock: see election/leader
--   ARGV[1]  owner    of the leader
--   ARGV[2]  term     the fencing token of the leader
--   ARGV[3]  value    that the leader proclaims
--   ARGV[4]  ttl      milliseconds until the record expires, unless it is renewed
--   ARGV[5]  channel  on which `1` announces the record to observers
--
--   1   written
--   0   not held by this owner: nothing is written
--
-- A repeated request writes the same record, and keeps `since`, the time of the first request.
--
-- Cost: HEXISTS, HMGET, TIME, DEL, HSET, PEXPIRE and PUBLISH.

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
    -- Without a TTL, the record would stay for ever.
    redis.call('DEL', KEYS[2])
    return lease
end
redis.pcall('PUBLISH', ARGV[5], '1')
return 1
