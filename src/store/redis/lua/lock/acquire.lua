-- lock/acquire: grant an exclusive lock, or say who has it.
--
--   KEYS[1]  lock    hash {owner: hold count}; lives as long as the lease
--   ARGV[1]  owner   who asks, unique to this acquisition
--   ARGV[2]  ttl     lease in milliseconds
--
--   1                granted, with a hold count of 1. The same owner asking again
--                    gets the same grant and a fresh lease, so a lost reply is safe.
--   {pttl, fields}   taken for at most pttl milliseconds (-1: without end).
--
-- Time: PTTL, HSET and PEXPIRE when free; PTTL and HGETALL when taken.

local ttl = redis.call('PTTL', KEYS[1])

if ttl ~= -2 then
    local fields = redis.call('HGETALL', KEYS[1])
    if fields[1] ~= ARGV[1] then
        return {ttl, fields}
    end
end

redis.call('HSET', KEYS[1], ARGV[1], 1)
local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(lease) == 'table' then
    -- Refused, by an ACL perhaps. A hold without an end must not stay.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return lease
end
return 1
