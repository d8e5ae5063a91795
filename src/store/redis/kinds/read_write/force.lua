-- read_write/force: removes all readers, or the writer, and notifies the waiters.
--
--   KEYS[1]  lock     hash {mode: read or write, reader: hold count, `owner:write`: hold count}
--   ARGV[1]  mode     read or write
--   ARGV[2]  channel  of the notification
--   ARGV[3]  message  to publish: 0 for the read side, 1 for the write side
--   ARGV[4]  prefix   of the leases of readers
--
--   1        the lock was held in this mode, and no longer is
--   2        the same, but the server denied the notification
--   0        the lock was not held in this mode
--
-- A writer can also have a read hold. If the writer is removed, this read hold stays until its
-- lease ends. If readers are removed while a writer holds the lock, no waiter can acquire the lock,
-- so the script notifies no waiter.
--
-- If a writer that has a read hold is removed, the script costs HGETALL, HDEL, HSET, and the cost
-- of `longest_lease` instead of DEL.
--
-- Cost: HGET, HLEN, DEL and PUBLISH.

local function notify()
    return type(redis.pcall('PUBLISH', ARGV[2], ARGV[3])) == 'table' and 2 or 1
end

local function take_out(writes)
    local fields = redis.call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        if fields[i] ~= 'mode' and (string.sub(fields[i], -6) == ':write') == writes then
            redis.call('HDEL', KEYS[1], fields[i])
        end
    end
end

local mode = redis.call('HGET', KEYS[1], 'mode')
local writer_reads = mode == 'write' and redis.call('HLEN', KEYS[1]) > 2
if writer_reads and ARGV[1] == 'read' then
    take_out(false)
    return 1
elseif mode ~= ARGV[1] then
    return 0
elseif not writer_reads then
    redis.call('DEL', KEYS[1])
    return notify()
end

take_out(true)
redis.call('HSET', KEYS[1], 'mode', 'read')
local left = longest_lease(KEYS[1], ARGV[4])
if left then
    -- If `left` is 0, no reader remains, and PEXPIRE deletes the key.
    redis.pcall('PEXPIRE', KEYS[1], left)
end
return notify()
