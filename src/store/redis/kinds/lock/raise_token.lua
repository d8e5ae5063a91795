-- lock/raise_token: raises the counter of fencing tokens, and never lowers it.
--
--   KEYS[1]  tokens  Redisson's counter, without a TTL
--   ARGV[1]  least   minimum of the counter afterwards
--
--   n      the new value of the counter
--   {err}  the counter is no number, or Lua cannot hold it exactly
--
-- A repeated request raises nothing. The script needs no command that a fenced grant does not need.
--
-- Time: INCRBY; a second one when it raises.

-- Lua does not hold greater numbers exactly.
local MOST = 2 ^ 53 - 1

local now = redis.pcall('INCRBY', KEYS[1], 0)
local is_number = type(now) == 'number'
if is_number and math.abs(now) > MOST
    or not is_number and (now.err:find('WRONGTYPE') or now.err:find('not an integer')) then
    return redis.error_reply('ERR no counter of fencing tokens below 2^53: ' .. KEYS[1])
elseif not is_number then
    return now
end

local more = ARGV[1] - now
return more > 0 and redis.call('INCRBY', KEYS[1], string.format('%.0f', more)) or now
