-- read_write/prolong: prolong many writers, each only if it still writes.
--
--   KEYS[i]      lock    hash {mode: read or write, reader: hold count, owner:write: hold count}
--   ARGV[2i-1]   writer  who writes KEYS[i], as a writer
--   ARGV[2i]     ttl     new lease in milliseconds; 0 only looks
--
--   {o1, o2, …}  for each writer 1 if it writes, 0 if not
--
-- The lock lives as long as the longest lease: one that reads beside may have a longer one.
-- A key of another type is not written by anybody: it must not spoil the others.
-- Any other refusal says nothing about who writes, and ends the call.
--
-- Time: HEXISTS, PTTL and PEXPIRE for each writer.

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
    if writes == 1 and redis.call('PTTL', lock) < ttl then
        redis.call('PEXPIRE', lock, ttl)
    end
    outcomes[i] = writes
end

return outcomes
