-- expect: error: x
local op = ...
op.name = "\27]0;x\7\27[2J\r\n\0\b" .. ("\27[31m"):rep(100)
opscript.OperationQueue.new("\27[2J")
error("x\27[2J", 0)
