-- rate_limiter/prelude: reads a rate limiter. Precedes the scripts of rate limiters.
--
--   {err}   DAMAGED: a field, the counter or a member has an unknown form
--
-- Redisson's counter is the number of permits that are left. The sorted set has a member for each
-- acquisition. The score of a member is the time in milliseconds since 1970. A member consists of a
-- byte with a length, that many random bytes, and the number of permits in four bytes, the lowest
-- byte first.
--
-- Cost: HMGET; TIME; GET, ZRANGEBYSCORE and ZCARD; PTTL, or PEXPIRE of three keys.

local function whole(number)
    return string.format('%.0f', number)
end

local function damaged(what)
    return redis.error_reply('DAMAGED ' .. what .. ' cannot be read; set the rate again')
end

-- Returns the time of the server in milliseconds.
local function milliseconds()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the settings of the limiter, and the keys that its type selects. On failure, returns nil
-- and an error. If no client has set a rate, returns only nil.
local function limiter_at(name, value, own_value, permits, own_permits)
    local rate, interval, kind, idle = unpack(redis.call('HMGET', name, 'rate', 'interval',
        'type', 'keepAliveTime'))
    if not (rate and interval and kind) then
        return nil
    end
    local it = {name = name, value = value, permits = permits, per_client = kind == '1'}
    it.rate, it.interval, it.idle = tonumber(rate), tonumber(interval), tonumber(idle or 0)
    if not (it.rate and it.interval and it.idle) or not (kind == '0' or kind == '1') then
        return nil, damaged(name)
    end
    if it.per_client then
        it.value, it.permits = own_value, own_permits
    end
    return it
end

-- Returns the number of permits of a member, or nil if the member has an unknown form.
local function permits_of(member)
    local length = string.byte(member) or 0
    if #member == length + 5 then
        local a, b, c, d = string.byte(member, length + 2, length + 5)
        return a + 256 * (b + 256 * (c + 256 * d))
    end
end

-- Returns the number of permits of these members, or nil and an error.
local function sum(members, key)
    local all = 0
    for _, member in ipairs(members) do
        local permits = permits_of(member)
        if not permits then
            return nil, damaged(key)
        end
        all = all + permits
    end
    return all
end

-- Returns the counter, nil, and the stored text, which is false if the counter does not exist. On
-- failure, returns nil and an error.
local function counter(it)
    local text = redis.call('GET', it.value)
    local value = tonumber(string.match(text or '0', '^%-?%d+$'))
    if value then
        return value, nil, text
    end
    return nil, damaged(it.value)
end

-- Returns the number of free permits, or nil and an error. Sets `it.gone` to the start of the
-- window, and `it.old` to how many members have left the window. If the window is empty, the whole
-- rate is free whatever the counter says, because the counter may be out of date. If the counter is
-- missing or too high, the members in the window decide.
local function free_at(it, now)
    local value, refused, there = counter(it)
    it.gone = whole(now - it.interval)
    local old = redis.call('ZRANGEBYSCORE', it.permits, '-inf', it.gone)
    it.old = #old
    local back
    if not refused then
        back, refused = sum(old, it.permits)
    end
    if refused then
        return nil, refused
    end
    if redis.call('ZCARD', it.permits) == it.old then
        return it.rate
    elseif there and value + back <= it.rate then
        return value + back
    end
    local live = redis.call('ZRANGEBYSCORE', it.permits, '(' .. it.gone, '+inf')
    local used
    used, refused = sum(live, it.permits)
    return used and it.rate - used, refused
end

-- Starts the idle time of the limiter again, if it has one, and gives the counter and the permits
-- the TTL of the limiter. A client's own permits expire even if the limiter never does, because
-- no other client would delete them.
local function keep(it)
    local rest = it.idle
    if rest > 0 then
        redis.call('PEXPIRE', it.name, whole(rest))
    else
        rest = redis.call('PTTL', it.name)
    end
    if rest <= 0 and it.per_client then
        rest = 2 * it.interval
    end
    if rest > 0 then
        redis.call('PEXPIRE', it.value, whole(rest))
        redis.call('PEXPIRE', it.permits, whole(rest))
    end
end

