-- permits/prelude: count those whose lease is over as free. Stands before the scripts about permits.
--
--   {free, regained, is_set}   how many are free now, how many of them had expired, and
--                              whether there is a counter; or nothing, and why the server
--                              does not let us. NONUMBER: the counter is another text
--
-- Their holder is not asked: a lease that is over is nobody's.
--
-- Time: GET and ZCOUNT; ZREM, INCRBY and ZREMRANGEBYSCORE when some have expired.

-- What Redisson writes for a lease that never ends.
local NEVER = 922337203685477

-- Now, in milliseconds. All of ours count by the clock of the server.
local function clock()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
    return string.format('%.0f', number)
end

-- Begins to write, and changes nothing. A full server lets a script end what it has begun.
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

-- Says how many are free, if there are any: Redisson takes what is below 0 for an error.
-- Returns whether the server let us.
local function announce(channel, free)
    return free <= 0 or type(redis.pcall('PUBLISH', channel, whole(free))) == 'number'
end

