-- expect: error: cannot be sent
local op = ... op.big = ("x"):rep(2 << 20)
