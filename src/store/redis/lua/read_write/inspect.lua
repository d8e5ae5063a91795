-- read_write/inspect: say who reads, or who writes.
--
--   KEYS[1]  lock  hash {mode: read or write, reader: hold count, owner:write: hold count}
--   ARGV[1]  mode  read or write
--
--   {}                     nobody
--   {pttl, owner, count}   one of them, for another pttl milliseconds (-1: without end)
--
-- Time: HGET, PTTL, HLEN and HGETALL.

if redis.call('HGET', KEYS[1], 'mode') ~= ARGV[1] then
    return {}
end
return holder(KEYS[1], redis.call('PTTL', KEYS[1]))
