-- number: read a counter. Stands before the scripts that decide by one.
--
--   {err}   NONUMBER: what lies under the key is a text and no whole number. Or it is no text;
--           or it would be a number that Java cannot count to
--
-- Time: GET.

-- The number under a key, 0 if there is none, and as the third whether there is one; or
-- nothing, and an error.
local function number_at(key)
    local text = redis.call('GET', key)
    local number = tonumber(string.match(text or '0', '^%-?%d+$'))
    if number then
        return number, nil, text
    end
    return nil, redis.error_reply('NONUMBER ' .. key)
end

-- Why a number cannot be; nothing if it can.
local function uncountable(number)
    if math.abs(number) > 2147483647 then
        return redis.error_reply('ERR Java counts from -2147483647 to 2147483647')
    end
end

