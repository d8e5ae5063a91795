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

local DEEPEST = 32

-- How much more may be sent.
local left = 250000

-- Whether it can be sent with what was looked at before. It looks no further when it cannot: a
-- table may be a part of itself, or of many others.
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

local done, answer = pcall(work, keys, args)
if not done then
    local words = type(answer) == 'table' and answer.err or answer
    return {3, string.sub(tostring(words), 1, 1000)}
elseif not fits(answer, 0) then
    return {3, 'ERR the answer is too long: 250 kB at most, and lists 32 deep. The script ran to its end'}
end
return {1, answer}
