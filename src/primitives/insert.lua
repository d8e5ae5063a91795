if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then
    return false
end
return redis.call('HGET', KEYS[1], ARGV[1])
