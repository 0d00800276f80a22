-- expect: ok
local function h() error("x") end return xpcall(error, h) == false
