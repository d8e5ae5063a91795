-- map/prelude: notifies the local caches of Java. Precedes the scripts that change entries.
--
-- Scripts publish before they change anything: if the ACL denies PUBLISH, the script ends without a
-- change. Clients receive the message after the script has ended.
--
--   0   `notify` returns nothing
--
-- Time: PUBLISH.

local function notify(topic, notice)
    if topic ~= '' then
        redis.call('PUBLISH', topic, notice)
    end
end

