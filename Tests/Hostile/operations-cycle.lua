-- expect: error
local a, b = opscript.Operation.new(function() end), opscript.Operation.new(function() end) a:addDependency(b) b:addDependency(a)
