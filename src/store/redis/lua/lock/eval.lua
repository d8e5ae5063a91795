-- lock/eval: run a script of somebody else's, if a lock is still its owner's.
--
--   KEYS[1]     lock     hash {owner: hold count}
--   KEYS[i]     key      what it finds as the key before that
--   ARGV[1]     owner    who holds
--   ARGV[i]     arg      what it finds as the argument before that
--
--   0                    not held by this owner: nothing is done
--   {1}                  done, and nothing was returned
--   {1, answer}          done
--   {3, words}           failed: what it wrote before stays
--
-- Stands behind `local function work(KEYS, ARGV) … end` around its text.
--
-- A reply of more than 256 KiB, or of many lists in each other, would end the
-- connection of all who speak on it.
--
-- Time: HEXISTS, and what it does.

local MOST, DEEPEST = 250000, 32

-- How much there is to send.
local function size(value, depth)
    if type(value) == 'string' then
        return #value + 16
    elseif type(value) ~= 'table' then
        return 32
    elseif depth == DEEPEST then
        return MOST + 1
    end
    local sum = 16
    for name, part in pairs(value) do
        sum = sum + size(part, depth + 1) + (type(name) == 'string' and #name + 16 or 0)
    end
    return sum
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

local done, answer = pcall(work, keys, args)
if not done then
    local words = type(answer) == 'table' and answer.err or answer
    return {3, string.sub(tostring(words), 1, 1000)}
elseif size(answer, 0) > MOST then
    return {3, 'ERR the answer is too long'}
end
return {1, answer}
