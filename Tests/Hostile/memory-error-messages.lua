-- expect: memory
local m = "x" while true do local _, e = pcall(error, m .. m) m = e end
