-- Conditions, keys, resources, and limits of queues.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "main work"

local data = queue:addOperation(function() return { rows = 0 } end)
local empty = Operation.new { name = "report", dependencies = { data }, main = print }
empty:addCondition(function(op) return data.result.rows > 0, "there are no rows" end)
local missing = Operation.new { name = "missing", conditions = { { "fileExists", "/no/such/file" } }, main = print }
queue:addOperations({ empty, missing }, true)
print(empty.error.kind, empty.error)
print(missing.error)
print(pcall(empty.addCondition, empty, "noFailedDependencies"))

opscript.resources { gpu = 2, memory = "1K" }
local big = Operation.new { name = "big", needs = { gpu = 2, memory = "1k" }, exclusive = { "b", "a", "b" } }
print(big.needs.gpu, big.needs.memory, table.concat(big.exclusive, " "))
local begun = opscript.channel()
local held = queue:addOperation(Operation.new { name = "held", exclusive = "a", main = function(op)
  begun:send(true)
  while not op.isCancelled do opscript.sleep(1000) end
end })
begun:receive()
queue:addOperation(big)
local fields
local deadline = opscript.now() + 60
repeat
  assert(opscript.now() < deadline, "'big' has not asked for its key within a minute")
  fields = select(2, big:why())
until fields and fields.exclusive
print((big:why()))
held:cancel()
big:waitUntilFinished()
print(pcall(queue.addOperation, queue, Operation.new { name = "bigger", needs = { memory = "2K" } }))
print(pcall(Operation.new, { needs = { memory = "2X" } }))
print(pcall(Operation.new, { retry = { attempts = 2, dealy = 1 } }))

local full = OperationQueue.new { name = "full", maxPendingOperationCount = 2, maxConcurrentOperationCount = 1, isSuspended = true }
opscript.after(0, function() print "resumed" full.isSuspended = false end)
for i = 1, 5 do full:addOperation(function() end) end
print("added", full.progress.totalUnitCount)
local limited = OperationQueue.new { rateLimit = { count = 50, burst = 1 } }
for i = 1, 3 do limited:addOperation(function() end) end
limited:waitUntilAllOperationsAreFinished()
print(limited.rateLimit.count, limited.rateLimit.seconds, limited.rateLimit.burst)
