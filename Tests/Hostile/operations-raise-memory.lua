-- expect: memory
local op = ... op.memoryLimit = 1 << 40 local s = "x" while true do s = s .. s end
