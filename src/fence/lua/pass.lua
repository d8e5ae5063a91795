-- pass: executes a write, unless a hold with a newer token has written.
--
-- The code before this text defines `write`, a Lua function of the keys and arguments of the write.
--
--   KEYS[#KEYS]  fence  string: the newest token so far, in decimal; without a TTL
--   ARGV[#ARGV]  token  token of the hold that writes
--
--   {token, reply}   the write was executed, and replied `reply`
--   {newest, nil}    a hold with the token `newest` has written, so nothing was written now
--
-- The script stores the token before the write. So older tokens are rejected even if the write
-- fails half way. The script compares tokens as texts, because Lua numbers are exact only up to
-- 2^53.
--
-- Cost: GET and SET, and the write.

local fence, token = KEYS[#KEYS], ARGV[#ARGV]
KEYS[#KEYS], ARGV[#ARGV] = nil, nil

-- Returns whether `text` is a whole number of at most 20 digits, without leading zeros.
local function is_token(text)
    return #text <= 20 and (text == '0' or string.find(text, '^[1-9]%d*$') ~= nil)
end

local function is_older(one, other)
    return #one < #other or #one == #other and one < other
end

local newest = redis.call('GET', fence)
if newest and not is_token(newest) then
    return redis.error_reply('ERR the value of the fence key is not a token: ' .. fence)
end
if newest and is_older(token, newest) then
    return {newest, false}
end

redis.call('SET', fence, token)
local reply = write(KEYS, ARGV)
if type(reply) == 'table' and reply.err then
    return reply
end
if reply == nil then
    reply = false
end
return {token, reply}
