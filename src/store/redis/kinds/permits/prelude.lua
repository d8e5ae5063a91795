-- permits/prelude: frees expired permits. Precedes the scripts of permits.
--
--   {free, regained, is_set}   of `reap`: how many permits are free now, how many of these had
--                              expired, and whether the counter exists; or nil and an error.
--                              NONUMBER: the counter is not a number
--
-- An expired permit can be granted again, because its holder no longer relies on it.
--
-- Cost: GET and ZCOUNT; ZREM, INCRBY and ZREMRANGEBYSCORE if permits have expired.

-- The time that Redisson writes for a lease that never ends.
local NEVER = 922337203685477

-- Returns the time in milliseconds. All scripts use the clock of the server.
local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
    return string.format('%.0f', number)
end

-- Makes a first write that changes nothing and that a full server accepts. After this write, a full
-- server also accepts the other writes of the script.
local function begin(held)
    redis.call('ZREM', held, '')
end

local function reap(counter, held, now)
    local is_set = redis.call('GET', counter)
    local free = tonumber(string.match(is_set or '0', '^%-?%d+$'))
    local expired = redis.call('ZCOUNT', held, '0', whole(now))
    if not free then
        return nil, redis.error_reply('NONUMBER ' .. counter)
    elseif expired == 0 then
        return free, 0, is_set
    end
    begin(held)
    free = redis.call('INCRBY', counter, expired)
    local gone = redis.pcall('ZREMRANGEBYSCORE', held, '0', whole(now))
    if type(gone) == 'table' then
        redis.call('INCRBY', counter, -expired)
        return nil, gone
    end
    return free, expired, true
end

-- Publishes the number of free permits if it is positive, because a negative number is an error for
-- Redisson. Returns whether the server allowed the message.
local function announce(channel, free)
    return free <= 0 or type(redis.pcall('PUBLISH', channel, whole(free))) == 'number'
end

