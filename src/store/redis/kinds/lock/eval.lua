-- lock/eval: runs a script of the user, if the owner still holds the lock.
--
--   KEYS[1]     lock     hash {owner: hold count}
--   KEYS[i]     key      for the user's script, where its index is i - 1
--   ARGV[1]     owner    of the hold
--   ARGV[i]     arg      for the user's script, where its index is i - 1
--
--   0                    not held by this owner: the user's script did not run
--   {1}                  the user's script returned nothing
--   {1, reply}           the user's script returned this reply
--   {3, words}           the user's script failed with this error; its earlier writes stay
--
-- The user's script, in `local function work(KEYS, ARGV) … end`, precedes this text.
--
-- A reply of more than 256 KiB, or of many nested lists, would end the connection, which all
-- callers share. So the script returns an error instead of such a reply.
--
-- Cost: HEXISTS, and the user's script.

local DEEPEST = 32

-- How many more bytes fit into the reply.
local left = 250000

-- Returns whether the value fits into the reply. Stops when the reply is full, because a table may
-- contain itself, or occur in many other tables.
local function fits(value, depth)
    left = left - (type(value) == 'string' and #value or 16) - 16
    if left < 0 or depth == DEEPEST then
        return false
    elseif type(value) ~= 'table' then
        return true
    end
    for name, part in pairs(value) do
        left = left - (type(name) == 'string' and #name or 0)
        if not fits(part, depth + 1) then
            return false
        end
    end
    return true
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

local keys, args = {}, {}
for i = 2, #KEYS do
    keys[i - 1] = KEYS[i]
end
for i = 2, #ARGV do
    args[i - 1] = ARGV[i]
end

local done, reply = pcall(work, keys, args)
if not done then
    local words = type(reply) == 'table' and reply.err or reply
    return {3, string.sub(tostring(words), 1, 1000)}
elseif not fits(reply, 0) then
    return {3, 'ERR the reply is too long: 250 kB at most, and at most 32 nested lists. The script ran to its end'}
end
return {1, reply}
