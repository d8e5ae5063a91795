-- number: read a counter. Stands before the scripts that decide by one.
--
--   {err}   what lies under the key is no number, or no text; or it would be none that Java
--           can count to
--
-- Time: GET.

-- The number under a key, 0 if there is none; or nothing, and an error.
local function number_at(key)
    local number = tonumber(redis.call('GET', key) or '0')
    if number then
        return number
    end
    return nil, redis.error_reply('ERR no number: ' .. key)
end

-- Why a number cannot be; nothing if it can.
local function uncountable(number)
    if math.abs(number) > 2147483647 then
        return redis.error_reply('ERR Java counts from -2147483647 to 2147483647')
    end
end

