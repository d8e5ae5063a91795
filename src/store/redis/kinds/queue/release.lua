-- queue/release: ends a claim. The element is done, is set aside, or goes back to the head.
--
--   KEYS[1]  queue      Redisson's list of elements
--   KEYS[2]  claims     hash {owner: claim}, as queue/acquire writes it
--   KEYS[3]  claimants  zset {owner: milliseconds since 1970 when its lease ends}
--   KEYS[4]  receipt    of this release
--   KEYS[5]  aside      list of elements that a worker could not read, or that are too long
--   ARGV[1]  owner      of the claim
--   ARGV[2]  ending     'back', 'done' or 'aside'
--   ARGV[3]  taken      for 'done' and 'aside': when the element was taken. If the claim has
--                       another time, a delayed request of this claim took another element. The
--                       script then puts this other element back
--   ARGV[4]  channel    on which a returned element is announced
--   ARGV[5]  rest       milliseconds for which the receipt is kept
--
--   1   the claim has ended as requested: now, or by an earlier request whose reply was lost
--   0   the claim had expired, and its element has gone back
--
-- If the server rejects HDEL, the script removes the element from the list again, and the claim
-- stays. If the server also rejects this removal, the element exists twice.
--
-- Cost: HGET, HDEL, ZREM and SET; LPUSH and PUBLISH, or RPUSH; GET for a repeated request.

local claim = redis.call('HGET', KEYS[2], ARGV[1])
if not claim then
    return answered(KEYS[4]) or 0
end

local ours = ARGV[2] == 'back' or string.sub(claim, 1, 16) == ARGV[3]
local back = ARGV[2] == 'back' or not ours
if back then
    redis.call('LPUSH', KEYS[1], string.sub(claim, 18))
elseif ARGV[2] == 'aside' then
    redis.call('RPUSH', KEYS[5], string.sub(claim, 18))
end
local ended = redis.pcall('HDEL', KEYS[2], ARGV[1])
if type(ended) == 'table' then
    if back then
        redis.call('LPOP', KEYS[1])
    elseif ARGV[2] == 'aside' then
        redis.call('RPOP', KEYS[5])
    end
    return ended
end
redis.pcall('ZREM', KEYS[3], ARGV[1])
if back then
    redis.pcall('PUBLISH', ARGV[4], '0')
end
if not ours then
    return answered(KEYS[4]) or 0
end
redis.pcall('SET', KEYS[4], '1', 'PX', ARGV[5])
return 1
