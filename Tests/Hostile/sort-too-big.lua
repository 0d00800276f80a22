-- expect: error: array too big
table.sort(setmetatable({}, { __len = function() return 1 << 31 end }))
