-- barrier/arrive: counts a member, and opens the barrier when enough members have arrived.
--
--   KEYS[1]  members     zset {member: millisecond until which it counts}
--   KEYS[2]  generation  counter of openings; expires if the barrier is unused for long
--   KEYS[3]  receipt     of this member: `generation:index` once it has passed
--   KEYS[4]  inside      only of a double barrier: zset {member: millisecond until which it is
--                        inside}
--   ARGV[1]  member      unique to this arrival
--   ARGV[2]  parties     how many members open the barrier
--   ARGV[3]  ttl         milliseconds for which a member counts after its last request
--   ARGV[4]  channel     on which `0` announces an opening
--   ARGV[5]  receipts    prefix of the receipts of all members
--   ARGV[6]  rest        milliseconds for which a receipt is kept
--   ARGV[7]  idle        milliseconds until an unused counter expires
--   ARGV[8]  lease       only of a double barrier: milliseconds for which a member is inside after
--                        the opening or its last renewal
--
--   {1, generation, index}    the barrier has opened for this member. A repeated request returns
--                             the same, so a lost reply is safe
--   {0, count, member, …}     the member waits: how many members have arrived, and up to sixteen
--                             of them
--   {2}                       the double barrier has opened for this member, but the lease of this
--                             member is over
--
-- If a member sends no more requests, it is removed when its time is over, as if it had never come.
-- The member that opens the barrier has the highest index. A double barrier opens only while no
-- member is inside. If more than ARGV[2] members wait when it opens, it opens for ARGV[2] of them,
-- and the other members keep waiting.
--
-- An opening costs INCR, PEXPIRE, PUBLISH, and SET and ZREM for each member. In a double barrier,
-- an opening also costs PEXPIRE, and ZADD for each member. In a double barrier, each request also
-- costs ZREMRANGEBYSCORE and ZCARD, or ZSCORE, ZADD, PTTL and PEXPIRE if the member is inside.
--
-- Cost: TIME, GET, ZREMRANGEBYSCORE, ZADD, PEXPIRE, ZCARD and ZRANGE.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Lets a member in until its lease is over. The TTL of the key never becomes shorter, because other
-- members may have longer leases.
local function let_in(member, lease)
    redis.call('ZADD', KEYS[4], string.format('%.0f', now + lease), member)
    if redis.call('PTTL', KEYS[4]) < tonumber(lease) then
        redis.call('PEXPIRE', KEYS[4], lease)
    end
end

local passed = redis.call('GET', KEYS[3])
if passed then
    if KEYS[4] then
        local ends = redis.call('ZSCORE', KEYS[4], ARGV[1])
        if not ends or tonumber(ends) <= now then
            return {2}
        end
        let_in(ARGV[1], ARGV[8])
    end
    local generation, index = string.match(passed, '^(%d+):(%d+)$')
    return {1, tonumber(generation), tonumber(index)}
end

-- Returns whether members of an earlier generation are inside.
local function is_occupied()
    if not KEYS[4] then
        return false
    end
    redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now))
    return redis.call('ZCARD', KEYS[4]) > 0
end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
if type(lease) == 'table' then
    -- Without a TTL, the member would stay for ever.
    redis.call('ZREM', KEYS[1], ARGV[1])
    return lease
end

local count, parties = redis.call('ZCARD', KEYS[1]), tonumber(ARGV[2])
if count < parties or is_occupied() then
    local reply = redis.call('ZRANGE', KEYS[1], 0, 15)
    table.insert(reply, 1, count)
    table.insert(reply, 1, 0)
    return reply
end

local generation = redis.call('INCR', KEYS[2])
redis.pcall('PEXPIRE', KEYS[2], ARGV[7])
local function pass(member, at, lease)
    local text = string.format('%.0f:%d', generation, at)
    redis.call('SET', ARGV[5] .. member, text, 'PX', ARGV[6])
    redis.call('ZREM', KEYS[1], member)
    if KEYS[4] then
        let_in(member, lease)
    end
end
-- In a double barrier, this request does not know the leases of the other members. The next request
-- of each of these members sets its lease. Until then, the lease is ARGV[3] or the lease of this
-- request, whichever is longer.
local others = string.format('%.0f', math.max(ARGV[3], ARGV[8] or 0))
local index = 0
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, parties - 1)) do
    if member ~= ARGV[1] and index < parties - 1 then
        pass(member, index, others)
        index = index + 1
    end
end
pass(ARGV[1], index, ARGV[8])
redis.pcall('PUBLISH', ARGV[4], '0')
return {1, generation, index}
