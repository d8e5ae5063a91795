-- map/read: reads entries of a map.
--
--   KEYS[1]  map      hash {key: value}
--   ARGV[1]  longest  how many bytes the reply may have
--   ARGV[i]  key      of an entry
--
--   {value, …}  the values of the first keys, as many as one reply may contain; nil for a key
--               that the map does not have. A longer reply would end the connection
--
-- Cost: HGET of each key.

local values, length = {}, 0
for i = 2, #ARGV do
    local value = redis.call('HGET', KEYS[1], ARGV[i])
    length = length + (value and #value or 0)
    if length > tonumber(ARGV[1]) then
        break
    end
    values[i - 1] = value
end
return values
