-- fair/acquire: grants a fair lock to the head of its queue, or returns its holder.
--
--   KEYS[1]  lock       hash {owner: hold count}
--   KEYS[2]  queue      list of the waiting owners
--   KEYS[3]  deadlines  zset {owner: millisecond}
--   KEYS[4]  alive      zset {owner: millisecond}; see fair/prelude for all of them
--   ARGV[1]  owner    of this acquisition, which no other one has
--   ARGV[2]  ttl      lease in milliseconds
--   ARGV[3]  alive    milliseconds that a waiter counts as alive after this request; 0 for a
--                     caller that does not wait, and gets no queue entry
--   ARGV[4]  channel  prefix of the channel of each waiter
--
--   owner                  granted, with a hold count of 1. A repeated request gets the same grant
--                          and a fresh lease, so a lost reply is safe
--   {pttl, owner, count}   held for at most pttl milliseconds (-1: without end). With a count of 0
--                          it is free, but for this owner, the head of the queue, for so long
--
-- If the lock is free, and dead waiters before the head were dropped, the head is notified by 0 on
-- its channel, because the message of the release went to a dead waiter.
--
-- To wait costs ZADD and ZSCORE, and a new entry LRANGE, ZSCORE, PTTL, two ZADD, RPUSH and PEXPIRE.
-- A grant costs ZREM, and one from the queue LRANGE, LREM, two ZREM, ZRANGE and ZADD, all as long as
-- the queue.
--
-- Time: that of fair/prelude, HSCAN, HSET and PEXPIRE.

-- If the lock is free but kept for another waiter, the caller sends its next request after this
-- time.
local LEAST_WAIT = 50

local waits = ARGV[3] ~= '0'
local lives_until = string.format('%.0f', now + ARGV[3])

-- Notes that this owner is alive. Without this key, dead waiters would count as those of Redisson.
-- So its TTL covers the time for which they may be in the queue.
local function live(deadline)
    redis.call('ZADD', KEYS[4], lives_until, ARGV[1])
    local rest = deadline - now + WAIT
    if redis.call('PTTL', KEYS[4]) < rest then
        redis.call('PEXPIRE', KEYS[4], string.format('%.0f', rest))
    end
end

-- Adds an entry and its deadline, or neither.
local function join()
    local last = redis.call('LRANGE', KEYS[2], '-1', '-1')[1]
    local before = last and (time_of(last, KEYS[3]) or now) - now or lease_left()
    local deadline = now + math.max(before, 0) + WAIT
    live(deadline)
    set_deadline(ARGV[1], deadline)
    local joined = redis.pcall('RPUSH', KEYS[2], ARGV[1])
    if type(joined) == 'table' then
        redis.call('ZREM', KEYS[3], ARGV[1])
        return joined
    end
end

-- Keeps the entry of this owner, or adds one. Returns an error, if any.
local function stay()
    local deadline = time_of(ARGV[1], KEYS[3])
    if not deadline then
        return join()
    end
    -- Redisson's clients move deadlines by times that differ from those of the waiters.
    local left = lease_left()
    if deadline < now + left + AHEAD then
        deadline = now + left + 2 * WAIT
        set_deadline(ARGV[1], deadline)
        live(deadline)
    end
end

if waits then
    -- This comes before dead waiters are dropped.
    redis.call('ZADD', KEYS[4], 'XX', lives_until, ARGV[1])
end
local head, dropped = settle(ARGV[2])
local owner, count = holder_of(KEYS[1])

if owner == ARGV[1] or not owner and (not head or head == ARGV[1]) then
    if head == ARGV[1] then
        leave({[ARGV[1]] = WAIT}, tonumber(ARGV[2]))
    elseif waits then
        -- Redisson may have dropped its entry.
        redis.call('ZREM', KEYS[4], ARGV[1])
    end
    if not owner then
        redis.call('HSET', KEYS[1], ARGV[1], '1')
    end
    local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(lease) == 'table' then
        -- Rejected, maybe by the ACL. A hold without a TTL must not stay.
        redis.call('HDEL', KEYS[1], ARGV[1])
        return lease
    end
    return ARGV[1]
end

local refused = waits and stay()
if refused then
    return refused
elseif owner then
    return {redis.call('PTTL', KEYS[1]), owner, count}
end
if dropped then
    notify(head, ARGV[4])
end
local ends = time_of(head, KEYS[4]) or time_of(head, KEYS[3])
return {math.max(ends - now, LEAST_WAIT), string.sub(head, 1, 512), '0'}
