-- expect: memory
local s = ("x"):rep(1 << 20) local args = {} for i = 1, 100 do args[i] = s end return #string.format(("%s"):rep(100), table.unpack(args))
