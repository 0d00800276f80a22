-- expect: error
error(setmetatable({}, { __tostring = function() error("again") end }))
