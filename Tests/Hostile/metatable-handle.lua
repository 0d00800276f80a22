-- expect: ok
local op = opscript.Operation.new(function() end) return getmetatable(op) ~= nil or true
