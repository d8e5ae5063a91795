-- pass: let a write through, unless a newer hold has written.
--
-- Above it stands the write: a function of the keys and arguments that are its own.
--
--   KEYS[#KEYS]  fence  string: the newest token that has passed, in decimal; no end
--   ARGV[#ARGV]  token  of the hold that writes
--
--   {token, reply}   passed; and what the write replies
--   {newest, nil}    a newer hold has written: nothing is written
--
-- The token is stored before the write: a write that fails half way keeps older ones out
-- all the same. Tokens are compared as texts: numbers beyond 2^53 are not exact here.
--
-- Time: GET and SET, and the write.

local fence, token = KEYS[#KEYS], ARGV[#ARGV]
KEYS[#KEYS], ARGV[#ARGV] = nil, nil

-- Whether `text` is a number of at most 64 bits, written in the one way there is.
local function is_token(text)
    return #text <= 20 and (text == '0' or string.find(text, '^[1-9]%d*$') ~= nil)
end

local function is_older(one, other)
    return #one < #other or #one == #other and one < other
end

local newest = redis.call('GET', fence)
if newest and not is_token(newest) then
    return redis.error_reply('ERR the fence holds no token: ' .. fence)
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
