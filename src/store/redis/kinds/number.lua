-- number: reads a counter. Precedes the scripts that decide by one.
--
--   {err}   NONUMBER: the key has a text that is not a whole number. Or the key has another type;
--           or the result would exceed Java's `int`
--
-- Time: GET.

-- Returns the number of a key (0 without the key), nil, and whether the key exists. On failure it
-- returns nil and an error.
local function number_at(key)
    local text = redis.call('GET', key)
    local number = tonumber(string.match(text or '0', '^%-?%d+$'))
    if number then
        return number, nil, text
    end
    return nil, redis.error_reply('NONUMBER ' .. key)
end

-- Returns an error if Java's `int` cannot hold the number.
local function uncountable(number)
    if math.abs(number) > 2147483647 then
        return redis.error_reply('ERR Java counts from -2147483647 to 2147483647')
    end
end

