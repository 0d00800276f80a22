#!/usr/bin/env opscript
-- Workers compute, and the main queue shows the results: its operations run in the script's own state, on the variables themselves.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local background, main = OperationQueue.new "background", OperationQueue.main

local view = { lines = {} }                                  -- never leaves this state
function view:show(text) self.lines[#self.lines + 1] = text end

local finish = Operation.new(function()
  table.sort(view.lines)
  for _, line in ipairs(view.lines) do print(line) end
end)

for n = 10, 30, 10 do
  local compute = Operation.new(function()                   -- runs on a worker, with copies
    local a, b = 0, 1
    for _ = 1, n do a, b = b, a + b end
    return a
  end)
  local show = Operation.new(function() view:show("fib(" .. n .. ") = " .. compute.result) end)
  show:addDependency(compute)
  finish:addDependency(show)
  background:addOperation(compute)
  main:addOperation(show)
end
main:addOperation(finish)                                    -- runs after the script has returned; the command waits for it
