-- fair/acquire: grants a fair lock to the head of its queue, or returns its holder.
--
--   KEYS[1]  lock       hash {owner: hold count}
--   KEYS[2]  queue      list of the waiting owners
--   KEYS[3]  deadlines  zset {owner: millisecond}
--   KEYS[4]  alive      zset {owner: millisecond}; fair/prelude explains all four keys
--   ARGV[1]  owner    unique to this acquisition
--   ARGV[2]  ttl      lease in milliseconds
--   ARGV[3]  alive    milliseconds for which a waiter counts as alive after this request; 0 if the
--                     caller does not wait, and so gets no queue entry
--   ARGV[4]  channel  prefix of the channel of each waiter
--
--   owner                  granted, with a hold count of 1. A repeated request gets the same grant
--                          and a fresh lease, so a lost reply is safe
--   {pttl, owner, count}   another owner holds the lock for at most pttl milliseconds (-1: without
--                          end). If count is 0, the lock is free, but for at most pttl milliseconds
--                          only the returned owner, the head of the queue, can acquire it
--
-- If the lock is free, and the script drops dead waiters from the front of the queue, the release
-- has notified only a dead waiter. So the script notifies the new head, by publishing 0 on the
-- channel of this head.
--
-- A waiter costs ZADD and ZSCORE. A new entry costs LRANGE, ZSCORE, PTTL, two ZADD, RPUSH and
-- PEXPIRE. A grant costs ZREM. A grant from the queue costs LRANGE, LREM, two ZREM, ZRANGE and
-- ZADD. The time of these commands grows with the length of the queue.
--
-- Cost: fair/prelude, HSCAN, HSET and PEXPIRE.

-- If the lock is free but kept for the head of the queue, the caller waits for at least this number
-- of milliseconds.
local LEAST_WAIT = 50

local waits = ARGV[3] ~= '0'
local lives_until = string.format('%.0f', now + ARGV[3])

-- Records that this owner is alive. If KEYS[4] expired, dead waiters of Leasehold would count as
-- waiters of Redisson. So KEYS[4] lives for at least WAIT after the deadline of this owner.
local function note_alive(deadline)
    redis.call('ZADD', KEYS[4], lives_until, ARGV[1])
    local rest = deadline - now + WAIT
    if redis.call('PTTL', KEYS[4]) < rest then
        redis.call('PEXPIRE', KEYS[4], string.format('%.0f', rest))
    end
end

-- Adds a queue entry and its deadline. On failure, adds neither, and returns the error.
local function add_entry()
    local last = redis.call('LRANGE', KEYS[2], '-1', '-1')[1]
    local before = last and (time_of(last, KEYS[3]) or now) - now or lease_left()
    local deadline = now + math.max(before, 0) + WAIT
    note_alive(deadline)
    set_deadline(ARGV[1], deadline)
    local joined = redis.pcall('RPUSH', KEYS[2], ARGV[1])
    if type(joined) == 'table' then
        redis.call('ZREM', KEYS[3], ARGV[1])
        return joined
    end
end

-- Keeps the queue entry of this owner, or adds one. Returns an error, if any.
local function ensure_entry()
    local deadline = time_of(ARGV[1], KEYS[3])
    if not deadline then
        return add_entry()
    end
    -- A Redisson client that acquires the lock makes all deadlines earlier by its own wait time. So
    -- this deadline may be too early.
    local left = lease_left()
    if deadline < now + left + AHEAD then
        deadline = now + left + 2 * WAIT
        set_deadline(ARGV[1], deadline)
        note_alive(deadline)
    end
end

if waits then
    -- ZADD comes before `drop_dead_waiters`. Otherwise the script would drop this owner if its
    -- previous request was too long ago, for example after a pause of its process.
    redis.call('ZADD', KEYS[4], 'XX', lives_until, ARGV[1])
end
local head, dropped = drop_dead_waiters(ARGV[2])
local owner, count = holder_of(KEYS[1])

if owner == ARGV[1] or not owner and (not head or head == ARGV[1]) then
    if head == ARGV[1] then
        remove_waiters({[ARGV[1]] = WAIT}, tonumber(ARGV[2]))
    elseif waits then
        -- This owner is not at the head, but KEYS[4] may still contain it, because Redisson removes
        -- an owner only from the queue and from the deadlines.
        redis.call('ZREM', KEYS[4], ARGV[1])
    end
    if not owner then
        redis.call('HSET', KEYS[1], ARGV[1], '1')
    end
    local lease = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
    if type(lease) == 'table' then
        -- PEXPIRE was rejected, maybe by the ACL. Without a TTL, the hold would never end.
        redis.call('HDEL', KEYS[1], ARGV[1])
        return lease
    end
    return ARGV[1]
end

local refused = waits and ensure_entry()
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
