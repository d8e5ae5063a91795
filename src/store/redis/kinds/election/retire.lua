-- election/retire: deletes the record of a leader that has stepped down.
--
--   KEYS[1]  record  hash {owner, term, value, since}
--   ARGV[1]  owner   of that leader
--
--   1   the record was deleted
--   0   the record does not exist, or another leader has written it
--
-- Time: HGET and DEL.

if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
