-- permits/change: changes the number of permits, or releases a permit of any holder.
--
--   KEYS[1]  counter  how many permits are free
--   KEYS[2]  held     zset {id of a permit: milliseconds since 1970 when its lease ends}
--   KEYS[3]  receipt  reply to this request, kept for a while
--   ARGV[1]  change   `set`, `set_if_absent`, `add` or `give_back`
--   ARGV[2]  what     the number of permits; for `give_back`, the id of the permit
--   ARGV[3]  channel  on which expired permits are announced as free
--   ARGV[4]  rest     how long the receipt is kept, in milliseconds
--
--   1, 0   of `set_if_absent`: 0 if the number was set before, else 1
--   1, 0   of `give_back`: 0 if the permit was not held, else 1
--   n      of `set` and `add`: the new number of free permits
--   {err}  of `add`: the number of free permits would exceed Java's `int`
--
-- Cost: GET and two SET of the receipt, TIME, GET, ZCOUNT, ZCARD, EXISTS; INCRBY, PUBLISH.

local before = answered(KEYS[3])
if before then
    return before
end

if ARGV[1] == 'give_back' then
    begin(KEYS[2])
end
make_room(KEYS[3], ARGV[4])

-- EXISTS comes before `reap`, because `reap` creates a missing counter if permits have expired.
local is_set = ARGV[1] == 'set_if_absent' and redis.call('EXISTS', KEYS[1]) == 1

local free, regained = reap(KEYS[1], KEYS[2], clock())
if not free then
    return regained
end

-- For each change, how many permits become free; nil if the change does nothing.
local more = {}

function more.set()
    return ARGV[2] - free - redis.call('ZCARD', KEYS[2])
end

function more.set_if_absent()
    return not is_set and more.set() or nil
end

function more.add()
    return tonumber(ARGV[2])
end

function more.give_back()
    return redis.call('ZSCORE', KEYS[2], ARGV[2]) and 1 or nil
end

local by = more[ARGV[1]]()
local reply = by and 1 or 0
if ARGV[1] == 'add' and math.abs(free + by) > 2147483647 then
    if regained > 0 then
        announce(ARGV[3], free)
    end
    return redis.error_reply('ERR the number is outside the range of Java, from -2147483647 to 2147483647')
elseif by then
    free = redis.call('INCRBY', KEYS[1], whole(by))
    if ARGV[1] == 'give_back' then
        redis.call('ZREM', KEYS[2], ARGV[2])
    end
end
if ARGV[1] == 'set' or ARGV[1] == 'add' then
    reply = free
end
if regained > 0 or by and by > 0 then
    announce(ARGV[3], free)
end
if ARGV[1] == 'set_if_absent' and not by then
    -- The receipt is not needed, because a repeated request gets 0 again. Some callers set the
    -- number before each acquisition, and would leave many receipts.
    redis.pcall('PEXPIRE', KEYS[3], 0)
    return 0
end
return answer(KEYS[3], ARGV[4], reply)
