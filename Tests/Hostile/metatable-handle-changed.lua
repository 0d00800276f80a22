-- expect: ok|error
local mt = getmetatable(opscript.OperationQueue.new()) if type(mt) == "table" then for k in pairs(mt) do mt[k] = nil end end
