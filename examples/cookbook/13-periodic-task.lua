#!/usr/bin/env opscript
-- Repeats a task during other work, and stops when the work has ended.

local queue = opscript.OperationQueue.new()
local ticks = 0

local work = opscript.Operation.new(function() opscript.sleep(0.2) return "work is done" end)
local clock = opscript.every(0.02, function() ticks = ticks + 1 end)
work.completionBlock = function(op)
  clock:cancel()                                             -- otherwise the script would never end
  print(op.result)
  print("the clock has ticked: " .. tostring(ticks > 0))
end
queue:addOperation(work)
opscript.after(0.01, function() print "once, after a while" end)
print "the script has reached its end"
