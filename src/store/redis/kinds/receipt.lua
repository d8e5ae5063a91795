-- receipt: recognizes repeated requests. Precedes scripts that change a number, push elements or end a claim.
--
--   0, 1, 2, …   the reply to the first request
--
-- Cost: GET; SET twice for the first request.

-- Returns the stored reply if this is a repeated request.
local function answered(receipt)
    return tonumber(redis.call('GET', receipt) or nil)
end

-- Creates an empty key for `rest` milliseconds. A script calls this function before any change, so
-- that it ends before the change if the server rejects writes.
local function make_room(receipt, rest)
    redis.call('SET', receipt, '', 'PX', rest)
end

-- Stores the reply for `rest` milliseconds, and returns it.
local function answer(receipt, rest, number)
    redis.call('SET', receipt, string.format('%.0f', number), 'PX', rest)
    return number
end
