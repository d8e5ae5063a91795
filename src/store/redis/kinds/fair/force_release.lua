-- fair/force_release: ends the hold of any holder of a fair lock, and notifies the head.
--
--   KEYS[1]  lock       hash {owner: hold count}; fair/prelude explains the other keys
--   ARGV[1]  channel  prefix of the channel of each waiter
--
--   1        the lock was held, and is now free
--   2        the same, but the server denied the notification
--   0        the lock was not held
--
-- HLEN comes first because it rejects a key of another type, which DEL would delete.
--
-- Cost: fair/prelude, HLEN, DEL and PUBLISH.

if redis.call('HLEN', KEYS[1]) == 0 then
    return 0
end
local head = drop_dead_waiters()
redis.call('DEL', KEYS[1])
return notify(head, ARGV[1]) and 1 or 2
