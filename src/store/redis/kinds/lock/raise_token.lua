-- lock/raise_token: raise the counter of fencing tokens; never lower it.
--
--   KEYS[1]  tokens  counter of Redisson's, without an end
--   ARGV[1]  least   what the counter is to be at least
--
--   n      what the counter is then
--   {err}  the counter is no number, or Lua cannot hold it exactly
--
-- Asked again it raises nothing. It needs no command that a fenced grant does not need.
--
-- Time: INCRBY; a second one when it raises.

-- Numbers beyond this are not exact here.
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
