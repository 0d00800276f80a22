-- A misuse raises an error that can be caught and says what is wrong. It changes nothing.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new { name = "queue", isSuspended = true }

local function named(name) return Operation.new { name = name, main = function() return name end } end
-- Prints whether `f` fails at the line that called it, with a message that contains all further arguments.
local function refused(what, f, ...)
  local ok, message = pcall(f)
  local parts = {}
  for i, part in ipairs { "misuse.lua:", ... } do parts[i] = not ok and tostring(message):find(part, 1, true) ~= nil end
  local all = not ok
  for _, found in ipairs(parts) do all = all and found end
  print(what, all or tostring(message))
end

-- Adding.
local once = named "once"
queue:addOperation(once)
refused("added twice", function() queue:addOperation(once) end, "once")
refused("added elsewhere", function() OperationQueue.new():addOperation(once) end, "once")
local x, y = named "x", named "y"
refused("a batch is added whole", function() queue:addOperations({ x, once, y }, false) end, "once")
refused("twice in a batch", function() queue:addOperations({ x, y, x }, false) end, "x")
print("count", queue.operationCount, #queue.operations)
refused("not an operation", function() queue:addOperation(12) end, "number")
refused("nothing", function() queue:addOperation() end)

-- Dependencies.
local a, b, c = named "a", named "b", named "c"
b:addDependency(a)
a:addDependency(c)
local ok, message = pcall(function() c:addDependency(b) end)
print("cycle", ok, message)
refused("on itself", function() a:addDependency(a) end, "a ", "itself")
b:removeDependency(a)
a:removeDependency(c)
local p, q = named "a", named "b"
q:addDependency(p)
ok, message = pcall(function() p:addDependency(q) end)
print("cycle", ok, message)
print("as it was", #p.dependencies, #q.dependencies, p.isReady, q.isReady)
refused("not an operation", function() p:addDependency "q" end, "string")

-- Starting.
local held = named "held"
held:addDependency(named "other")
refused("not ready", function() held:start() end, "held")
local started = named "started"
started:start()
refused("started twice", function() started:start() end, "started")
refused("in a queue", function() once:start() end, "once")
refused("finished", function() queue:addOperation(started) end, "started")
refused("completion block", function() started.completionBlock = print end, "started")
print("its result", started.result, started.isFinished)

-- Options and properties.
refused("unknown option", function() Operation.new { nmae = "x", main = print } end, "nmae", "name")
refused("unknown option of a queue", function() OperationQueue.new { maxConcurrentOperations = 1 } end, "maxConcurrentOperations", "maxConcurrentOperationCount")
refused("not a function", function() Operation.new(12) end, "number")
refused("priority", function() a.queuePriority = "urgent" end, "urgent")
refused("maximum", function() queue.maxConcurrentOperationCount = -2 end, "-2")
refused("read only", function() a.isFinished = true end, "isFinished")
refused("a name that is not one", function() a.name = {} end, "name")
print("as it was", a.queuePriority, queue.maxConcurrentOperationCount, a.isFinished, a.name)

-- A dot in place of a colon.
refused("dot", function() a.cancel() end, "cancel", ":")
refused("dot with an argument", function() a.addDependency(12) end, "addDependency")
refused("dot on a queue", function() queue.addOperation(a) end, "addOperation", ":")

queue.isSuspended = false
once:waitUntilFinished()
print("goes on", once.result)
