-- fair/release: removes the hold of an owner, or its queue entry, and notifies the head.
--
--   KEYS[1]  lock       hash {owner: hold count}
--   KEYS[3]  deadlines  zset {owner: millisecond}; fair/prelude has the other keys
--   ARGV[1]  owner    the owner that releases, or withdraws
--   ARGV[2]  channel  prefix of the channel of each waiter
--
--   0                      the hold is removed, and the lock is free, unless another program has
--                          written a field to KEYS[1]
--   -1                     the same, but the server denied the notification
--   {}                     this owner did not hold the lock, and no owner holds it
--   {pttl, owner, count}   this owner did not hold the lock, and this other owner holds it
--
-- Like Redisson, the script publishes 0 on the channel of the head.
--
-- A withdrawal also costs ZSCORE and PTTL. If it removes a queue entry, it costs LRANGE, LREM, two
-- ZREM, ZRANGE and ZADD. The time of these commands grows with the length of the queue.
--
-- Cost: fair/prelude, HDEL, EXISTS and PUBLISH.

local head = drop_dead_waiters()

if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    if time_of(ARGV[1], KEYS[3]) then
        remove_waiters({[ARGV[1]] = WAIT}, lease_left())
        head = first()
    end
    local pttl = redis.call('PTTL', KEYS[1])
    if pttl ~= -2 then
        return holder(KEYS[1], pttl)
    end
    -- Maybe no living waiter was notified. If the withdrawn owner was the head, an earlier release
    -- notified only this owner. If this request repeats a release, the first message may be lost.
    notify(head, ARGV[2])
    return {}
end

if redis.call('EXISTS', KEYS[1]) == 1 then
    -- Another program has written a field to the hash. So the lock is not free, and no waiter is
    -- notified.
    return 0
end
return notify(head, ARGV[2]) and 0 or -1
