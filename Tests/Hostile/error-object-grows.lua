-- expect: memory|timeout
error(setmetatable({}, { __tostring = function() local s = "x" while true do s = s .. s end end }))
