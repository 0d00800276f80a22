-- expect: ok
local g = _G for k in next, g do g[k] = nil end return true
