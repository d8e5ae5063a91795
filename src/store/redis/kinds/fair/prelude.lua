-- fair/prelude: the queue of a fair lock. Precedes the scripts of fair locks.
--
--   KEYS[1]  lock       hash {owner: hold count}; lives as long as the lease
--   KEYS[2]  queue      list of the waiting owners, with the head in front
--   KEYS[3]  deadlines  zset {owner: millisecond at which Redisson drops it}
--   KEYS[4]  alive      zset {owner: millisecond at which Leasehold drops it}, only of waiters of
--                       Leasehold
--
--   {head, dropped}   of `drop_dead_waiters`: the first living owner in the queue, or nothing; and
--                     whether dead owners were dropped before this owner
--
-- Redisson's clients use the first three keys, without a TTL. An owner has an entry in the queue
-- and a deadline, or neither. The deadline of an entry is the deadline of the entry before it, plus
-- the wait time of the waiter of this entry. All times are of the server's clock.
--
-- Each dropped owner costs LREM and two ZREM. All dropped owners together cost LRANGE, ZRANGE and
-- ZADD. A damaged queue costs LRANGE, ZRANGE, and ZSCORE for each entry.
--
-- Cost: TIME, LLEN, ZCARD and LRANGE; with a queue also ZRANGEBYSCORE, and ZSCORE twice.

-- The wait time of Redisson's waiters by default, and of all waiters of Leasehold.
local WAIT = 300000

-- `advance` moves no deadline to less than this many milliseconds after the end of the lease. So a
-- waiter can send its next request before its deadline, after which Redisson drops the waiter. If a
-- deadline is in the past, a Redisson client may wait without end.
local AHEAD = 1000

-- For this many milliseconds, a dead waiter of Leasehold stays in the queue behind a living waiter.
-- So clients that could not send requests during an outage keep their order. The time is so short
-- that the deadline of a dead waiter is still in the future when the waiter is dropped.
local OUTAGE = 30000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function lease_left()
    return math.max(redis.call('PTTL', KEYS[1]), 0)
end

local function first()
    return redis.call('LRANGE', KEYS[2], '0', '0')[1]
end

-- Returns the score of an owner in the zset `key`, in milliseconds, or a false value if the zset
-- does not contain the owner.
local function time_of(owner, key)
    local millis = redis.call('ZSCORE', key, owner)
    return millis and tonumber(millis)
end

local function set_deadline(owner, millis)
    redis.call('ZADD', KEYS[3], string.format('%.0f', millis), owner)
end

local function remove(owner)
    redis.call('LREM', KEYS[2], '0', owner)
    redis.call('ZREM', KEYS[3], owner)
    redis.call('ZREM', KEYS[4], owner)
end

-- Moves deadlines. `sooner` is a table {owner: by how many milliseconds its deadline becomes
-- earlier}. `lease` is how long the lock is held from now on.
local function advance(sooner, lease)
    local all = redis.call('ZRANGE', KEYS[3], '0', '-1', 'WITHSCORES')
    local least = now + lease + AHEAD
    local pairs_of = {}
    for i = 1, #all, 2 do
        local owner, deadline = all[i], tonumber(all[i + 1])
        local millis = sooner[owner]
        if millis then
            local moved = math.max(deadline - millis, math.min(deadline, least))
            pairs_of[#pairs_of + 1] = string.format('%.0f', moved)
            pairs_of[#pairs_of + 1] = owner
        end
    end
    -- A Lua call can have only a few thousand arguments.
    for i = 1, #pairs_of, 2000 do
        redis.call('ZADD', KEYS[3], unpack(pairs_of, i, math.min(i + 1999, #pairs_of)))
    end
end

-- Removes owners from the queue. `gone` is a table {owner: by how many milliseconds the deadlines
-- behind this owner become earlier}.
local function remove_waiters(gone, lease)
    local sooner, millis = {}, 0
    for _, waiter in ipairs(redis.call('LRANGE', KEYS[2], '0', '-1')) do
        if gone[waiter] then
            millis = millis + gone[waiter]
        elseif millis > 0 then
            sooner[waiter] = millis
        end
    end
    for owner in pairs(gone) do
        remove(owner)
    end
    if next(sooner) then
        advance(sooner, lease)
    end
end

-- Repairs a damaged queue. Removes repeated entries of one owner, adds missing deadlines, and
-- removes deadlines without an entry.
local function repair()
    local seen = {}
    for place, owner in ipairs(redis.call('LRANGE', KEYS[2], '0', '-1')) do
        if seen[owner] then
            redis.call('LREM', KEYS[2], '-1', owner)
        elseif not time_of(owner, KEYS[3]) then
            set_deadline(owner, now + lease_left() + place * WAIT)
        end
        seen[owner] = true
    end
    for _, owner in ipairs(redis.call('ZRANGE', KEYS[3], '0', '-1')) do
        if not seen[owner] then
            redis.call('ZREM', KEYS[3], owner)
        end
    end
end

-- Returns whether a waiter is alive. A waiter of Leasehold is dead if its last request is too old.
-- Any other waiter is dead after its deadline.
local function is_alive(owner)
    local alive, deadline = time_of(owner, KEYS[4]), time_of(owner, KEYS[3])
    if not deadline then
        repair()
        deadline = time_of(owner, KEYS[3])
    end
    return (alive or deadline) > now
end

-- Drops the dead waiters at the front of the queue, and up to 100 other waiters that died more than
-- OUTAGE ago. `lease` is the lease of the grant that may follow.
local function drop_dead_waiters(lease)
    if redis.call('LLEN', KEYS[2]) ~= redis.call('ZCARD', KEYS[3]) then
        repair()
    end
    local head, gone = first(), {}
    if not head then
        return nil, false
    end
    local function drop(owner)
        -- If the deadline of this waiter is in the past, its whole wait time is over. So the
        -- deadlines behind it stay as they are.
        gone[owner] = (time_of(owner, KEYS[3]) or 0) > now and WAIT or 0
    end
    if not is_alive(head) then
        for _, owner in ipairs(redis.call('LRANGE', KEYS[2], '0', '-1')) do
            if is_alive(owner) then
                break
            end
            drop(owner)
        end
    end
    local long_ago = string.format('%.0f', now - OUTAGE)
    local old = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', long_ago, 'LIMIT', '0', '100')
    for _, owner in ipairs(old) do
        drop(owner)
    end
    if next(gone) then
        remove_waiters(gone, math.max(lease_left(), tonumber(lease or 0)))
    end
    local left = first()
    return left, left ~= head
end

-- Notifies the head that the lock is free. Returns whether the server allowed the message.
local function notify(head, channel)
    return not head or type(redis.pcall('PUBLISH', channel .. ':' .. head, '0')) == 'number'
end

