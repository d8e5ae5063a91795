-- read_write/renew: renews many readers. Skips each reader whose own lease is over.
--
--   KEYS[2i-1]   lock   hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   KEYS[2i]     lease  string; lives as long as the lease of this reader
--   ARGV[2i-1]   owner  of the read hold
--   ARGV[2i]     ttl    new lease in milliseconds; 0 only checks
--
--   {o1, o2, …}  for each reader 1 if it holds the lock, 0 if not
--
-- The TTL of the lock is the longest lease. So the script shortens the TTL only if the reader is
-- the only holder. A key of another type counts as not held, so the other readers are still
-- renewed. Any other rejection does not prove a loss, so it ends the script.
--
-- Cost: HEXISTS, PEXPIRE, PTTL and PEXPIRE for each reader; HLEN if its new lease is shorter.

local outcomes = {}

for i = 1, #KEYS / 2 do
    local lock, lease = KEYS[2 * i - 1], KEYS[2 * i]
    local owner, ttl = ARGV[2 * i - 1], ARGV[2 * i]
    local reads = redis.pcall('HEXISTS', lock, owner)
    if type(reads) == 'table' then
        if not string.find(reads.err, 'WRONGTYPE', 1, true) then
            return reads
        end
        reads = 0
    end
    if reads == 1 and ttl == '0' then
        reads = redis.call('EXISTS', lease)
    elseif reads == 1 then
        reads = redis.call('PEXPIRE', lease, ttl)
        local left = reads == 1 and redis.call('PTTL', lock) - ttl or 0
        if left < 0 or left > 0 and redis.call('HLEN', lock) == 2 then
            redis.call('PEXPIRE', lock, ttl)
        end
    end
    outcomes[i] = reads
end

return outcomes
