-- once: recognizes repeated changes whose reply is a text. Precedes the scripts that change data.
--
--   0   no, or nothing
--   1   yes, with the bytes after it if there are any
--
-- Time: GET; SET and the command for the first request that changes something.

-- Returns the reply to the first request, if this is a repeated one that changed something.
local function replied(receipt)
    local answer = redis.call('GET', receipt)
    return answer and answer ~= '' and answer
end

-- Runs a command, and returns the reply. Keeps the reply for `rest` milliseconds. A server that is
-- full or read-only rejects the first write, which ends the script. If the ACL denies the command,
-- a repeated request must not find the reply.
local function once(receipt, rest, answer, ...)
    redis.call('SET', receipt, answer, 'PX', rest)
    local done = redis.pcall(...)
    if type(done) == 'table' and done.err then
        redis.pcall('DEL', receipt)
        return done
    end
    return answer
end
