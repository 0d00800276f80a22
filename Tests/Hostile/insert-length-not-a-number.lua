-- expect: error: object length is not an integer
table.insert(setmetatable({}, { __len = function() return "x" end }), 1)
