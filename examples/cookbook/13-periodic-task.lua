#!/usr/bin/env opscript
-- Does something again and again while other work goes on, and stops when that has ended.

local queue = opscript.OperationQueue.new()
local ticks = 0

local work = opscript.Operation.new(function() opscript.sleep(0.2) return "work is done" end)
local clock = opscript.every(0.02, function() ticks = ticks + 1 end)
work.completionBlock = function(op)
  clock:cancel()                                             -- or the script would go on for ever
  print(op.result)
  print("the clock has ticked: " .. tostring(ticks > 0))
end
queue:addOperation(work)
opscript.after(0.01, function() print "once, after a while" end)
print "the script has reached its end"
