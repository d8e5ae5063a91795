-- The environment of a script: the part of Redis's library that the scripts of the store use.
--
-- Returns three values: the globals of scripts, the environment through which scripts see the
-- globals, and the function that runs a script.

local call, try, located, words, sha1hex = ...

local globals = {
    _VERSION = _VERSION, assert = assert, error = error, getmetatable = getmetatable,
    ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal, rawget = rawget,
    rawset = rawset, select = select, setmetatable = setmetatable, tonumber = tonumber,
    tostring = tostring, type = type, unpack = unpack, xpcall = xpcall,
    math = math, string = string, table = table,
}

-- Random numbers would make two runs with the same seed differ.
math.random, math.randomseed = nil, nil

-- If a script catches the error of a command, the script gets the text of the error.
local function caught(done, ...)
    if done then
        return true, ...
    end
    return false, words((...))
end

function globals.pcall(...)
    return caught(pcall(...))
end

local redis = {LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3}
globals.redis = redis

redis.call, redis.pcall, redis.sha1hex = call, try, sha1hex

function redis.error_reply(text)
    local words = string.gsub(text, '^%-', '')
    return {err = string.find(words, ' ', 1, true) and words or 'ERR ' .. words}
end

function redis.status_reply(text)
    return {ok = text}
end

function redis.log()
end

local function missing(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function frozen()
    error('Attempt to modify a readonly table', 2)
end

setmetatable(globals, {__index = missing})
local environment = setmetatable({}, {__index = globals, __newindex = frozen})

return globals, environment, function(script)
    return xpcall(script, located)
end
