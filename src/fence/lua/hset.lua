-- hset: writes fields of a hash.
--
--   KEYS[1]  data    hash
--   ARGV     fields  each field, followed by its value
--
--   0, 1, …  how many fields are new
--
-- The script writes 500 fields at a time, because a Lua call takes only a few thousand arguments.
--
-- Cost: HSET for each 500 fields.

local added = 0
for first = 1, #ARGV, 1000 do
    local last = math.min(first + 999, #ARGV)
    added = added + redis.call('HSET', KEYS[1], unpack(ARGV, first, last))
end
return added
