-- lock/write: writes other keys, all or none, if the owner still holds the lock.
--
--   KEYS[1]     lock    hash {owner: hold count}
--   KEYS[i]     key     of the write that ARGV[3i-4] and the next two arguments describe
--   ARGV[1]     owner   of the hold
--   ARGV[3i-4]  verb    SET, HSET, HSETNX, HDEL, DEL or PEXPIRE; or NOTICE, which publishes a
--                       message. All NOTICEs come first
--   ARGV[3i-3]  first   the value for SET, the field for HSET, HSETNX and HDEL, milliseconds for
--                       PEXPIRE, the channel for NOTICE
--   ARGV[3i-2]  second  the value for HSET and HSETNX, the message for NOTICE
--
--   0                   not held by this owner: nothing is written
--   {1}                 written
--   {2, words, verb}    rejected: nothing is written
--   {3, words, verb}    rejected after earlier writes, which stay. The reason is always that
--                       the ACL denies this command
--
-- All other rejections come before the first write, because the script checks all types first. A
-- server that is full or accepts no writes rejects the first write of a script, but never a later
-- write.
--
-- Cost: HEXISTS, TYPE for each HSET, HSETNX and HDEL, and the writes.

local KINDS = {SET = 'string', HSET = 'hash', HSETNX = 'hash', DEL = 'none'}

local function write(verb, key, first, second)
    if verb == 'HSET' or verb == 'HSETNX' then
        return redis.pcall(verb, key, first, second)
    elseif verb == 'NOTICE' then
        return redis.pcall('PUBLISH', first, second)
    elseif verb == 'HDEL' then
        return redis.pcall('HDEL', key, first)
    elseif verb == 'DEL' then
        return redis.pcall('DEL', key)
    end
    return redis.pcall(verb, key, first)
end

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end

-- The type that each key will have after the writes that this loop has already checked.
local kinds = {}
for i = 2, #KEYS do
    local verb, key = ARGV[3 * i - 4], KEYS[i]
    if verb == 'HSET' or verb == 'HSETNX' or verb == 'HDEL' then
        local kind = kinds[key] or redis.call('TYPE', key).ok
        if kind ~= 'hash' and kind ~= 'none' then
            key = string.sub(key, 1, 100)
            return {2, 'WRONGTYPE `' .. key .. '` is a ' .. kind .. ', not a hash', verb}
        end
    end
    kinds[key] = KINDS[verb] or kinds[key]
end

local wrote = false
for i = 2, #KEYS do
    local verb = ARGV[3 * i - 4]
    local done = write(verb, KEYS[i], ARGV[3 * i - 3], ARGV[3 * i - 2])
    if type(done) == 'table' and done.err then
        return {wrote and 3 or 2, done.err, verb == 'NOTICE' and 'PUBLISH' or verb}
    end
    wrote = verb ~= 'NOTICE'
end
return {1}
