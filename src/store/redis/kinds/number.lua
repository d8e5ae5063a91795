-- number: reads a counter. Precedes the scripts that read a counter.
--
--   {err}   NONUMBER: the value is not a whole number. Other errors: the key has another type, or
--           the result would exceed Java's `int`
--
-- Cost: GET.

-- Returns three values: the number, nil, and the stored text. If the key does not exist, the number
-- is 0, and the text is false. On failure, returns nil and an error.
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
        return redis.error_reply('ERR the number is outside the range of Java, from -2147483647 to 2147483647')
    end
end

