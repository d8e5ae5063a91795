-- lock/force_release: ends the hold of any holder of a lock, and notifies the waiters.
--
--   KEYS[1]  lock     hash {owner: hold count}
--   ARGV[1]  channel  of the notification
--
--   1        the lock was held, and is now free
--   2        the same, but the server denied the notification
--   0        the lock was not held
--
-- HLEN comes first because it rejects a key of another type, which DEL would delete.
--
-- Cost: HLEN, DEL and PUBLISH.

if redis.call('HLEN', KEYS[1]) == 0 then
    return 0
end

redis.call('DEL', KEYS[1])
if type(redis.pcall('PUBLISH', ARGV[1], '0')) == 'table' then
    return 2
end
return 1
