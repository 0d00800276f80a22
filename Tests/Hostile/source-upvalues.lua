-- expect: error: upvalues
local s = {} for i = 1, 300 do s[i] = "local a" .. i .. " " if i % 150 == 0 then s[i] = s[i] .. "local function f" .. i .. "() " end end
local u = {} for i = 1, 300 do if i % 150 ~= 0 then u[#u + 1] = "a" .. i end end
assert(load(table.concat(s) .. "return function() return " .. table.concat(u, "+") .. " end" .. (" end"):rep(2)))
error("too many upvalues")
