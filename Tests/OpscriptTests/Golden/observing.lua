-- Observers are told of changes, in order, in the state that set them.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new { name = "queue", maxConcurrentOperationCount = 1 }

local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  local names = {}
  for i, op in ipairs(value) do names[i] = op.name or "?" end
  return "{" .. table.concat(names, " ") .. "}"
end
local function log(what)
  return function(object, change)
    print(what, change.keyPath, "old " .. show(change.old), "new " .. show(change.new), change.isPrior and "prior" or "")
  end
end
local function deliver() opscript.sleep(0) end

-- An operation that runs on a worker.
local op = Operation.new { name = "op", main = function(op) op.step = 1; op.step = { "two" }; op.step = nil; return 7 end }
for _, keyPath in ipairs { "isReady", "isExecuting", "isFinished", "isCancelled" } do
  op:observe(keyPath, { "old", "new" }, log "flag")
end
op:observe("isFinished", function(self, change)
  print("finished", self == op, self.result, change.new, change.old, Operation.current)
end)
op:observe("step", { "old", "new" }, function(_, change)
  local function text(value) return type(value) == "table" and value[1] or tostring(value) end
  print("step", text(change.old), text(change.new))
end)
queue:addOperation(op)
op:waitUntilFinished()

-- Properties, and the options.
local gate = Operation.new { name = "gate", main = function() end }
local other = Operation.new { name = "other", main = function() end }
other:observe("name", { "old", "new", "prior", "initial" }, log "all")
other:observe("queuePriority", { "new" }, log "new")
other:observe("dependencies", { "old", "new" }, log "both")
other:observe("isReady", { "new" }, log "new")
other:observe("completionBlock", { "old", "new" }, log "both")
other.name = "another"
other.queuePriority = "high"
other:addDependency(gate)
other.completionBlock = print
other.completionBlock = nil
other:removeDependency(gate)
deliver()

-- A token ends its observation. An observation goes on when its token is collected.
local count = 0
local token = gate:observe("name", function() count = count + 1 end)
gate:observe("name", function() count = count + 100 end)
print(token, token.keyPath)
gate.name = "one"
token:invalidate()
token:invalidate()
gate.name = "two"
for _ = 1, 3 do collectgarbage() end
gate.name = "three"
deliver()
print(count, token)

-- Queues.
local line = OperationQueue.new "line"
line:observe("operationCount", { "old", "new" }, log "count")
line:observe("operations", { "old", "new" }, log "operations")
line:observe("isSuspended", { "new" }, log "new")
line:observe("maxConcurrentOperationCount", { "old", "new" }, log "both")
line:observe("name", { "initial", "new" }, log "initial")
line.isSuspended = true
line.maxConcurrentOperationCount = 1
line:addOperations({ gate, other }, false)
line.isSuspended = false
line:waitUntilAllOperationsAreFinished()

-- In a worker's state.
local seen = queue:addOperation(function()
  local seen = {}
  local inner = opscript.Operation.new(function(op) op.part = "x" end)
  inner:observe("part", { "new" }, function(_, change) seen[#seen + 1] = change.new end)
  inner:observe("isFinished", function(self) seen[#seen + 1] = tostring(self.isFinished) end)
  opscript.OperationQueue.new():addOperation(inner)
  inner:waitUntilFinished()
  return table.concat(seen, " ")
end)
seen:waitUntilFinished()
print("in a worker", seen.result)

-- An error in an observer is reported and stops nothing.
op:observe("later", function() error "not caught" end)
op:observe("later", { "new" }, log "after an error")
op.later = 1
deliver()

-- Wrong use.
local function refused(...)
  local ok, message = pcall(op.observe, ...)
  print(ok, (message:gsub("^.-bad", "bad")))
end
refused(op, "isFinishd", print)
refused(op, "result", print)
refused(op, "isFinished", { "nwe" }, print)
refused(op, "isFinished", { old = true }, print)
refused(op, "isFinished", { "new" })
refused(op, "isFinished", "new", print)
refused(op, 12, print)
print(pcall(queue.observe, queue, "operationCuont", print))
print(pcall(queue.observe, queue, "progress", print))
print(select(2, pcall(op.observe, "isFinished", print)))
print(select(2, pcall(function() token.keyPath = 1 end)))
