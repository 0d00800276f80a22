-- expect: timeout
local s = ("\0"):rep(100000) while true do ("%q"):format(s) end
