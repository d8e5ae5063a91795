-- queue/prelude: common functions. Precedes the scripts of claims.
--
--   {ms, µs}   of `clock`: milliseconds since 1970 on the server's clock, and the microseconds as a
--              text of sixteen digits
--
-- A claim is the text `TIME:ELEMENT`: the microseconds at which the element was taken, as such a
-- text, and the bytes of the element.
--
-- Time: TIME; PUBLISH.

local function clock()
    local time = redis.call('TIME')
    local micros = time[1] * 1000000 + time[2]
    return math.floor(micros / 1000), string.format('%016.0f', micros)
end

local function taken_at(claim)
    return string.sub(claim, 1, 16)
end

local function element_of(claim)
    return string.sub(claim, 18)
end

local function announce(channel)
    redis.pcall('PUBLISH', channel, '0')
end
