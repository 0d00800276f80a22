-- expect: ok
table.insert(setmetatable({}, { __len = function() return -5 end }), 5, 1)
