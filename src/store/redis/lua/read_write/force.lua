-- read_write/force: free the lock whoever reads, or whoever writes, and tell the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, owner:write: hold count}
--   ARGV[1]  mode     read or write
--   ARGV[2]  channel  where to say so
--   ARGV[3]  message  what to say: 0 after readers, 1 after a writer
--
--   1        was held so, is free
--   2        the same, but the server refused to say so on the channel
--   0        was not held so
--
-- Time: HGET, DEL and PUBLISH.

if redis.call('HGET', KEYS[1], 'mode') ~= ARGV[1] then
    return 0
end

redis.call('DEL', KEYS[1])
if type(redis.pcall('PUBLISH', ARGV[2], ARGV[3])) == 'table' then
    return 2
end
return 1
