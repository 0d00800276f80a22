#!/usr/bin/env opscript
-- Asynchronous operations that timers finish: a service that answers late, a client that tries again, and a clock that shows that
-- nothing is blocked.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

-- Answers after a while, and only at the third request.
local calls = 0
local function service(answer)
  calls = calls + 1
  local number = calls
  opscript.after(0.02, function() answer(number == 3 and "here you are" or nil, "busy") end)
end

-- An operation that executes until the service has answered, with growing pauses between its requests. It runs in this state, as the
-- service does, and no thread waits.
local request = Operation.new {
  name = "request",
  asynchronous = true,
  main = function(op)
    local pause = 0.01
    local function try()
      if op.isCancelled then return op:fail "cancelled" end
      service(function(answer, problem)
        if answer then return op:finish(answer) end
        print("  " .. problem .. ", again in " .. pause .. " s")
        opscript.after(pause, try)
        pause = 2 * pause
      end)
    end
    try()
  end,
}

local ticks = 0
local clock = opscript.every(0.005, function() ticks = ticks + 1 end)
request.completionBlock = function(op)
  clock:cancel()
  print(op.result, ticks > 3)
end
OperationQueue.main:addOperation(request)

-- A timeout ends an asynchronous operation, too.
local late = Operation.new { name = "late", asynchronous = true, timeout = 0.05, main = function() end }
late.completionBlock = function(op) print(op.error.kind, op.error.operation.name) end
OperationQueue.new():addOperation(late)
print "waiting"
