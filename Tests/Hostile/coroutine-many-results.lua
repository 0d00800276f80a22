-- expect: error|memory
local c = coroutine.wrap(function() return table.unpack({}, 1, 900000) end) return select("#", c(), c())
