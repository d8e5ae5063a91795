-- read_write/inspect: returns a reader, or the writer.
--
--   KEYS[1]  lock  hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   ARGV[1]  mode  read or write
--
--   {}                     the lock is not held in this mode
--   {pttl, owner, count}   one holder, for another pttl milliseconds (-1: without end)
--
-- Cost: HGET, PTTL, HLEN and HGETALL.

-- Returns a read hold while the write side is held. This read hold belongs to the writer.
local function read_hold_of_writer()
    local fields = redis.call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        if fields[i] ~= 'mode' and string.sub(fields[i], -6) ~= ':write' then
            return {redis.call('PTTL', KEYS[1]), fields[i], fields[i + 1]}
        end
    end
    return {}
end

local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == ARGV[1] then
    return in_the_way(KEYS[1], mode, redis.call('PTTL', KEYS[1]))
elseif mode == 'write' and redis.call('HLEN', KEYS[1]) > 2 then
    return read_hold_of_writer()
end
return {}
