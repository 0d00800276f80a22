-- expect: ok|timeout
local b = {} for i = 1, 30000 do b[i] = "goto l" .. i .. " " end for i = 1, 30000 do b[#b + 1] = "::l" .. i .. ":: " end load(table.concat(b))
