-- read_write/prolong: renews many writers. Skips each writer that no longer holds its lock.
--
--   KEYS[i]      lock    hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   ARGV[2i-1]   writer  the field of the writer of KEYS[i]
--   ARGV[2i]     ttl     new lease in milliseconds; 0 only checks
--
--   {o1, o2, …}  for each writer 1 if it holds the lock, 0 if not
--
-- The TTL of the lock is the longest lease, maybe the lease of a read hold. So the script shortens
-- the TTL only if the writer is the only holder. A key of another type counts as not held,
-- so the other writers are still renewed. Any other rejection does not prove a loss, so it ends the
-- script.
--
-- Cost: HEXISTS, PTTL and PEXPIRE for each writer; HLEN if its new lease is shorter.

local outcomes = {}

for i, lock in ipairs(KEYS) do
    local writer, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
    local writes = redis.pcall('HEXISTS', lock, writer)
    if type(writes) == 'table' then
        if not string.find(writes.err, 'WRONGTYPE', 1, true) then
            return writes
        end
        writes = 0
    end
    if writes == 1 and ttl > 0 then
        local left = redis.call('PTTL', lock)
        if left < ttl or left > ttl and redis.call('HLEN', lock) == 2 then
            redis.call('PEXPIRE', lock, ttl)
        end
    end
    outcomes[i] = writes
end

return outcomes
