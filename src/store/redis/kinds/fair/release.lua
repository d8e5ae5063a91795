-- fair/release: removes the hold of an owner, or its queue entry, and notifies the head.
--
--   KEYS[1]  lock       hash {owner: hold count}
--   KEYS[3]  deadlines  zset {owner: millisecond}; the others are those of fair/prelude
--   ARGV[1]  owner    the owner that releases, or withdraws
--   ARGV[2]  channel  prefix of the channel of each waiter
--
--   0                      was held, and is free
--   -1                     the same, but the server denied the notification
--   {}                     not held by this owner, nor by anybody
--   {pttl, owner, count}   not held by this owner, but by another
--
-- Messages: 0 on the channel of the head, as Redisson's releases.
--
-- A withdrawal also costs ZSCORE and PTTL, and with a queue entry LRANGE, LREM, two ZREM, ZRANGE and
-- ZADD, all as long as the queue.
--
-- Time: that of fair/prelude, HDEL, EXISTS and PUBLISH.

local head = settle()

if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    if time_of(ARGV[1], KEYS[3]) then
        leave({[ARGV[1]] = WAIT}, lease_left())
        head = first()
    end
    local pttl = redis.call('PTTL', KEYS[1])
    if pttl ~= -2 then
        return holder(KEYS[1], pttl)
    end
    -- The withdrawn owner may have been the head, and only the head was notified. A repeated
    -- release also repeats a lost message.
    notify(head, ARGV[2])
    return {}
end

if redis.call('EXISTS', KEYS[1]) == 1 then
    -- Another program has written a field.
    return 0
end
return notify(head, ARGV[2]) and 0 or -1
