-- expect: memory|timeout
local t = {} while true do t[#t + 1] = opscript.Operation.new(function() end) end
