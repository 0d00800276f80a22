-- expect: timeout
local ops = {}
while true do
    pcall(function() while true do ops[#ops + 1] = opscript.channel { name = ("n"):rep(100000) } end end)
end
