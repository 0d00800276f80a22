-- Asynchronous operations go on after their function has returned, until `finish` or `fail` ends them.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "queue"

local sent = opscript.channel()
local request = Operation.new { name = "request", asynchronous = true, main = function() sent:send(true) end }
queue:addOperation(request)
queue:addOperation(function()  -- receives the answer later, on a worker
  sent:receive()
  request:finish("200 OK", { length = 12 })
  request:finish "again"  -- only the first end counts
end)
request:waitUntilFinished()
print(request, request.result, request.results.n, request.results[2].length)

local refused = queue:addOperation(Operation.new { name = "refused", asynchronous = true, main = function(op) op:fail { status = 404 } end })
refused:waitUntilFinished()
print(refused, refused.error.value.status, refused.error.kind, refused.result)

local raised = queue:addOperation(Operation.new { name = "raised", asynchronous = true, main = function() error "no network" end })
raised:waitUntilFinished()
print(raised, raised.error)

local byHand = Operation.new { name = "by hand", asynchronous = true, main = function(op) print("main of", op.name) end }
byHand:start()
print(byHand)
byHand:cancel()  -- only sets the flag
print(byHand)
byHand:finish(byHand.isCancelled)
print(byHand, byHand.result)

local early = Operation.new { name = "early", asynchronous = true, main = function() print "never" end }
early:cancel()
OperationQueue.main:addOperation(early)
early:waitUntilFinished()
print(early, early.results)

print(select(2, pcall(function() Operation.new { name = "plain", main = print }:finish() end)))
print(select(2, pcall(function() Operation.new { name = "new", asynchronous = true }:finish() end)))

local forgotten = Operation.new { name = "forgotten", asynchronous = true, main = function() end }
queue:addOperation(forgotten)
print(select(2, pcall(function() forgotten:waitUntilFinished() end)))
forgotten:interrupt()
forgotten:waitUntilFinished()
print(forgotten, forgotten.error.kind)
queue:addOperation(Operation.new { name = "lost", asynchronous = true, main = function() end })
