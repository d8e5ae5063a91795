-- map/prelude: notifies the local caches of Java. Precedes the scripts that change entries.
--
-- The message precedes the change. An ACL that denies it then ends the script with nothing changed,
-- and clients read it after the script in any case.
--
--   0   nothing: scripts do not use it
--
-- Time: PUBLISH.

local function notify(topic, notice)
    if topic ~= '' then
        redis.call('PUBLISH', topic, notice)
    end
end

