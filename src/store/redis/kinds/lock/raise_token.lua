-- lock/raise_token: raises the counter of fencing tokens, and never lowers it.
--
--   KEYS[1]  tokens  Redisson's counter, without a TTL
--   ARGV[1]  least   minimum of the counter afterwards
--
--   n      the new value of the counter
--   {err}  the counter is not a number, or is beyond 2^53 - 1
--
-- A repeated request changes nothing. A user that may acquire a fenced lock may also run this
-- script, because the grant uses INCRBY, too.
--
-- Cost: INCRBY; a second INCRBY if the counter is lower.

-- Lua represents whole numbers exactly only up to this number.
local MOST = 2 ^ 53 - 1

local now = redis.pcall('INCRBY', KEYS[1], 0)
local is_number = type(now) == 'number'
if is_number and math.abs(now) > MOST
    or not is_number and (now.err:find('WRONGTYPE') or now.err:find('not an integer')) then
    return redis.error_reply('ERR the key is not a counter of fencing tokens below 2^53: ' .. KEYS[1])
elseif not is_number then
    return now
end

local more = ARGV[1] - now
return more > 0 and redis.call('INCRBY', KEYS[1], string.format('%.0f', more)) or now
