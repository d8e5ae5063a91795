-- scan: reads a page of a map or a set. If the page is too long for one reply, reads a part of it.
--
--   KEYS[1]  data     hash {key: value}, or set
--   ARGV[1]  longest  how many bytes the reply may have
--   ARGV[2]  verb     HSCAN or SSCAN
--   ARGV[3]  cursor   of the page
--   ARGV[i]  read     hash of an entry of this page that an earlier request returned
--
--   {cursor, {key, value, …}, {}}              the rest of this page, and the cursor of the next
--                                              page, 0 at the end; elements have no values
--   {cursor, {key, value, …}, {read, …}}       a part; the next request needs this cursor and these
--                                              hashes
--   {cursor, {key, value, …}, {read, …}, key}  the same, but the entry after this part is longer
--                                              than the longest reply and was left out; `key` has
--                                              the first 200 bytes of the key of this entry
--
-- A longer reply would end the connection. Hashes identify the entries to skip, because the order
-- of the entries in a page may change between two requests.
--
-- Cost: HSCAN or SSCAN.

local page = redis.call(ARGV[2], KEYS[1], ARGV[3])
local step, longest, read, before = ARGV[2] == 'HSCAN' and 2 or 1, tonumber(ARGV[1]), {}, {}
for i = 4, #ARGV do
    read[i - 3], before[ARGV[i]] = ARGV[i], true
end

local parts, length = {}, 0
for i = 1, #page[2], step do
    local key, value = page[2][i], step == 2 and page[2][i + 1] or ''
    local hash = redis.sha1hex(key)
    if not before[hash] then
        -- The 64 bytes are for the hash of the entry, and for the length prefixes of its texts in
        -- the reply.
        length = length + #key + #value + 64
        if length > longest and #parts > 0 then
            return {ARGV[3], parts, read}
        end
        table.insert(read, hash)
        if length > longest then
            return {ARGV[3], parts, read, string.sub(key, 1, 200)}
        end
        table.insert(parts, key)
        if step == 2 then
            table.insert(parts, value)
        end
    end
end
return {page[1], parts, {}}
