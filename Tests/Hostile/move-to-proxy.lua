-- expect: timeout
table.move({}, 1, 1 << 60, 1, setmetatable({}, { __newindex = rawlen }))
