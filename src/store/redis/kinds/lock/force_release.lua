-- lock/force_release: free a lock whoever holds it, and tell the waiters.
--
--   KEYS[1]  lock     hash {owner: hold count}
--   ARGV[1]  channel  where to say so
--
--   1        was held, is free
--   2        the same, but the server refused to say so on the channel
--   0        was not held
--
-- HLEN refuses a key of another type, which DEL would delete.
--
-- Time: HLEN, DEL and PUBLISH.

if redis.call('HLEN', KEYS[1]) == 0 then
    return 0
end

redis.call('DEL', KEYS[1])
if type(redis.pcall('PUBLISH', ARGV[1], '0')) == 'table' then
    return 2
end
return 1
