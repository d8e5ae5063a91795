-- receipt: know a question that is asked again. Stands before the scripts that change a number.
--
--   0, 1, 2, …   whatever was answered to the first of them
--
-- Time: GET; SET twice for the first of them.

-- What the question with this receipt was answered, if it was asked before, and answered.
local function answered(receipt)
    return tonumber(redis.call('GET', receipt) or nil)
end

-- Makes room for the answer, for so many milliseconds. To be called before anything is
-- changed: a server that refuses to remember the answer ends the script here.
local function make_room(receipt, rest)
    redis.call('SET', receipt, '', 'PX', rest)
end

-- Answers it, and remembers that for as long.
local function answer(receipt, rest, number)
    redis.call('SET', receipt, string.format('%.0f', number), 'PX', rest)
    return number
end
