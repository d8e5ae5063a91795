-- fair/prelude: the queue of a fair lock. Precedes each of its scripts.
--
--   KEYS[1]  lock       hash {owner: hold count}; lives as long as the lease
--   KEYS[2]  queue      list of the waiting owners, the first one in front
--   KEYS[3]  deadlines  zset {owner: millisecond at which Redisson drops it}
--   KEYS[4]  alive      zset {owner: millisecond at which Leasehold drops it}, only of waiters of
--                       Leasehold
--
--   {head, dropped}   of `settle`: the first owner in the queue that is not dead, or nothing; and
--                     whether others were dropped before it
--
-- Redisson's clients use the first three keys, without a TTL. An owner has an entry in the queue
-- and a deadline, or neither. Each deadline is later than the one before it by the time that its
-- waiter is ready to wait. All times are of the server's clock.
--
-- An owner that is dropped costs LREM and two ZREM, and all of them together ZRANGE and ZADD. A
-- damaged queue costs LRANGE, ZRANGE, and ZSCORE for each entry.
--
-- Time: TIME, LLEN, ZCARD and LRANGE; with a queue also ZSCORE twice.

-- The wait time of Redisson's waiters by default, and of all waiters of Leasehold.
local WAIT = 300000

-- A deadline that is moved stays at least so far ahead, and beyond the lease: by then its waiter
-- asks again. Redisson drops a waiter after its deadline, and may wait without end for a past one.
local AHEAD = 1000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function lease_left()
    return math.max(redis.call('PTTL', KEYS[1]), 0)
end

local function first()
    return redis.call('LRANGE', KEYS[2], '0', '0')[1]
end

-- Returns the time of an owner in a zset, if it has one.
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

-- Moves all deadlines forward, or those of the owners that are keys of `moved`, while the lock is
-- held for this lease.
local function advance(millis, lease, moved)
    local all = redis.call('ZRANGE', KEYS[3], '0', '-1', 'WITHSCORES')
    local least = now + lease + AHEAD
    local pairs_of = {}
    for i = 1, #all, 2 do
        local owner, deadline = all[i], tonumber(all[i + 1])
        if not moved or moved[owner] then
            local sooner = math.max(deadline - millis, math.min(deadline, least))
            pairs_of[#pairs_of + 1] = string.format('%.0f', sooner)
            pairs_of[#pairs_of + 1] = owner
        end
    end
    -- Lua passes a few thousand arguments at most.
    for i = 1, #pairs_of, 2000 do
        redis.call('ZADD', KEYS[3], unpack(pairs_of, i, math.min(i + 1999, #pairs_of)))
    end
end

-- Removes an owner from the queue. The waiters behind it wait for one owner less, so their
-- deadlines move back.
local function leave(owner, lease)
    local behind, found = {}, false
    for _, waiter in ipairs(redis.call('LRANGE', KEYS[2], '0', '-1')) do
        if waiter == owner then
            found = true
        elseif found then
            behind[waiter] = true
        end
    end
    remove(owner)
    if next(behind) then
        advance(WAIT, lease, behind)
    end
end

-- Gives each entry of the queue one deadline, and removes deadlines without an entry.
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

-- Drops dead waiters in front of the queue. A waiter of Leasehold is dead if it has not asked for
-- long, and any other one after its deadline. `lease` is that of a grant that may follow.
local function settle(lease)
    if redis.call('LLEN', KEYS[2]) ~= redis.call('ZCARD', KEYS[3]) then
        repair()
    end
    local head, early, dropped = first(), 0, false
    while head do
        local lives, deadline = time_of(head, KEYS[4]), time_of(head, KEYS[3])
        if not deadline then
            repair()
            deadline = time_of(head, KEYS[3])
        end
        if (lives or deadline) > now then
            break
        end
        early = early + (deadline > now and 1 or 0)
        remove(head)
        head, dropped = first(), true
    end
    if head and early > 0 then
        advance(early * WAIT, math.max(lease_left(), tonumber(lease or 0)))
    end
    return head, dropped
end

-- Notifies the head of the queue that the lock is free. Returns whether the server allowed it.
local function notify(head, channel)
    return not head or type(redis.pcall('PUBLISH', channel .. ':' .. head, '0')) == 'number'
end

