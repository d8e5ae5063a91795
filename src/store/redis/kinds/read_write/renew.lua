-- read_write/renew: prolong many readers, each only if its own lease is not over.
--
--   KEYS[2i-1]   lock   hash {mode: read or write, reader: hold count, owner:write: hold count}
--   KEYS[2i]     lease  string; lives as long as the lease of this reader
--   ARGV[2i-1]   owner  who reads
--   ARGV[2i]     ttl    new lease in milliseconds; 0 only looks
--
--   {o1, o2, …}  for each reader 1 if it reads, 0 if not
--
-- A key of another type is not read by anybody: it must not spoil the others.
-- Any other refusal says nothing about who reads, and ends the call.
--
-- Time: HEXISTS, PEXPIRE, PTTL and PEXPIRE for each reader.

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
        if reads == 1 and redis.call('PTTL', lock) < tonumber(ttl) then
            redis.call('PEXPIRE', lock, ttl)
        end
    end
    outcomes[i] = reads
end

return outcomes
