-- permits/prelude: frees expired permits. Precedes the scripts of permits.
--
--   {free, regained, is_set}   how many are free now, how many of them had expired, and
--                              whether there is a counter; or nothing, and the rejection of
--                              the server. NONUMBER: the counter is another text
--
-- The holder of an expired permit has stopped relying on it.
--
-- Time: GET and ZCOUNT; ZREM, INCRBY and ZREMRANGEBYSCORE when some have expired.

-- Redisson writes this for a lease that never ends.
local NEVER = 922337203685477

-- Returns the time in milliseconds. All scripts use the clock of the server.
local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
    return string.format('%.0f', number)
end

-- Writes without a change. A full server lets a script continue after its first write.
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

-- Publishes the number of free permits, if there are any: Redisson takes a negative number for an
-- error. Returns whether the server allowed it.
local function announce(channel, free)
    return free <= 0 or type(redis.pcall('PUBLISH', channel, whole(free))) == 'number'
end

