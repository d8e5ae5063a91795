-- map/scan: reads a page of a map or of a set.
--
--   KEYS[1]  data     hash {key: value}, or set
--   ARGV[1]  longest  how many bytes the reply may have
--   ARGV[2]  verb     HSCAN or SSCAN
--   ARGV[3]  cursor   of the page
--   ARGV[4]  count    about how many entries
--
--   {cursor, {key, value, …}}   the cursor of the next page, 0 at the end; elements of a set
--                               have no values
--   0                           they are longer than the longest reply, which would end the
--                               connection
--
-- Time: HSCAN or SSCAN.

local page, length = redis.call(ARGV[2], KEYS[1], ARGV[3], 'COUNT', ARGV[4]), 0
for _, part in ipairs(page[2]) do
    length = length + #part
end
if length > tonumber(ARGV[1]) then
    return 0
end
return page
