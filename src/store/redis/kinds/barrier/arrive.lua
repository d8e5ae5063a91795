-- barrier/arrive: counts a member at a barrier, and opens it when enough members have arrived.
--
--   KEYS[1]  members     zset {member: millisecond until which it counts}
--   KEYS[2]  generation  counter of openings; expires when the barrier is unused for long
--   KEYS[3]  receipt     of this member: `generation:index` once it has passed
--   ARGV[1]  member      which no other arrival has
--   ARGV[2]  parties     how many members open the barrier
--   ARGV[3]  ttl         milliseconds for which a member counts after its last request
--   ARGV[4]  channel     on which `0` announces an opening
--   ARGV[5]  receipts    prefix of the receipts of all members
--   ARGV[6]  rest        milliseconds for which a receipt is kept
--   ARGV[7]  idle        milliseconds until an unused counter expires
--
--   {1, generation, index}    passed: the barrier has opened for this member. A repeated request
--                             returns the same, so a lost reply is safe
--   {0, count, member, …}     waits: how many members have arrived, and up to sixteen of them
--
-- A member that asks no more leaves when its time is over, as if it had never come. The member that
-- opens the barrier has the highest index.
--
-- An opening costs INCR, PEXPIRE, SET for each member, DEL and PUBLISH.
--
-- Time: GET, TIME, ZREMRANGEBYSCORE, ZADD, PEXPIRE, ZCARD and ZRANGE.

local passed = redis.call('GET', KEYS[3])
if passed then
    local generation, index = string.match(passed, '^(%d+):(%d+)$')
    return {1, tonumber(generation), tonumber(index)}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
if type(lease) == 'table' then
    -- Members without a TTL must not stay.
    redis.call('ZREM', KEYS[1], ARGV[1])
    return lease
end

local count = redis.call('ZCARD', KEYS[1])
if count < tonumber(ARGV[2]) then
    local reply = redis.call('ZRANGE', KEYS[1], 0, 15)
    table.insert(reply, 1, count)
    table.insert(reply, 1, 0)
    return reply
end

local generation = redis.call('INCR', KEYS[2])
redis.pcall('PEXPIRE', KEYS[2], ARGV[7])
local index = 0
local function pass(member, at)
    local text = string.format('%.0f:%d', generation, at)
    redis.call('SET', ARGV[5] .. member, text, 'PX', ARGV[6])
end
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if member ~= ARGV[1] then
        pass(member, index)
        index = index + 1
    end
end
pass(ARGV[1], index)
redis.call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[4], '0')
return {1, generation, index}
