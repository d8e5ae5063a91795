-- once: recognizes repeated changes whose reply is a text. Precedes the scripts that change data.
--
--   0    nothing changed, or there was no value
--   1…   something changed; if the script returns a value, the bytes of the value follow the 1
--
-- Cost: GET; SET and the command for the first request that changes something.

-- Returns the stored reply, if this is a repeated request and the first request changed something.
local function replied(receipt)
    local reply = redis.call('GET', receipt)
    return reply and reply ~= '' and reply
end

-- Stores `reply` for `rest` milliseconds, runs a command, and returns `reply`. SET comes first. A
-- full or read-only server rejects SET, and the script then ends before the command. If the ACL
-- denies the command, DEL removes `reply`, because a repeated request must not return it.
local function once(receipt, rest, reply, ...)
    redis.call('SET', receipt, reply, 'PX', rest)
    local done = redis.pcall(...)
    if type(done) == 'table' and done.err then
        redis.pcall('DEL', receipt)
        return done
    end
    return reply
end
