-- fair/force_release: frees a fair lock of any holder, and notifies the head of the queue.
--
--   KEYS[1]  lock       hash {owner: hold count}
--            the queue: the other keys of fair/prelude
--   ARGV[1]  channel  prefix of the channel of each waiter
--
--   1        was held, is free
--   2        the same, but the server denied the notification
--   0        was not held
--
-- HLEN rejects a key of another type, which DEL would delete.
--
-- Time: that of fair/prelude, HLEN, DEL and PUBLISH.

if redis.call('HLEN', KEYS[1]) == 0 then
    return 0
end
local head = settle()
redis.call('DEL', KEYS[1])
return notify(head, ARGV[1]) and 1 or 2
