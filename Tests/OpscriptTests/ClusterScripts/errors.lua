-- Errors, with their values and tracebacks, and unread ones.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "errors"
local function show(op)
  op:waitUntilFinished()
  local e = op.error
  print(op.name, op.isCancelled, op.result, e and e.kind, e and e.message, e and e.value, e and e.operation == op)
  print(e and e.traceback)
end
local function run(name, f, ...) show(queue:addOperation(Operation.new { name = name, main = f, arguments = { ... } })) end

local function deep(n)
  if n == 0 then error "too deep" end
  return 1 + deep(n - 1)
end
run("deep", function() return deep(3) end)
run("nil", function() local t; return t.x end)
run("without position", function() error("plain", 0) end)
run("nil as an error", function() error(nil) end)
local op = queue:addOperation(function() error { code = 404, list = { 1, 2 } } end)
op:waitUntilFinished()
print(op.error.value.code, #op.error.value.list, op.error.kind, op.error.message)
op = queue:addOperation(function() error(setmetatable({ 1 }, { __tostring = function(self) return "object " .. self[1] end })) end)
op:waitUntilFinished()
print(op.error.message, op.error)
run("caught", function() return select(2, pcall(error, "inside")) end)
run("not callable", function() local f = 5; f() end)
show(queue:addOperation(Operation.new { name = "late", timeout = 0.05, main = function() while true do end end }))
show(queue:addOperation(Operation.new { name = "late, asleep", timeout = 0.05, main = function() opscript.sleep(1000) end }))
show(queue:addOperation(Operation.new { name = "greedy", memoryLimit = 1 << 20, main = function() return ("x"):rep(1 << 24) end }))
queue:addOperation(Operation.new { name = "unread", main = function() error "nobody reads this" end }):waitUntilFinished()
local read = queue:addOperation(Operation.new { name = "read elsewhere", main = function() error "a body reads this" end })
read:waitUntilFinished()
local reader = queue:addOperation(function() return read.error.message, read.result end)
reader:waitUntilFinished()
print(reader.result, reader.results[2])
