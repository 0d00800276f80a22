-- expect: timeout
table.concat(setmetatable({}, { __index = table.concat }), "", 1, 1 << 60)
