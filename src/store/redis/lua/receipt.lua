-- receipt: know a question that is asked again. Stands before the scripts that change a number.
--
--   0, 1, 2, …   whatever was answered to the first of them
--
-- Time: GET; SET for the first of them.

-- What the question with this receipt was answered, if it was asked before.
local function answered(receipt)
    return tonumber(redis.call('GET', receipt) or nil)
end

-- Answers it, and remembers that for so many milliseconds.
local function answer(receipt, rest, number)
    redis.call('SET', receipt, string.format('%.0f', number), 'PX', rest)
    return number
end
