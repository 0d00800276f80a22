-- Subclasses, asynchronous operations, blocks, invocations, groups, barriers, preludes, modules and maps.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "kinds"
local function wait(op)
  queue:addOperation(op)
  op:waitUntilFinished()
  return op, op.isCancelled, op.error and op.error.message, op.result
end

local Download = Operation:subclass "Download"
Download.tries = 3
function Download:init(url) self.url = url end
function Download:host() return self.url:match "//([^/]+)" end
function Download:main() self.visited = self:host() return self:host() .. " " .. self.tries, self:isKindOf(Download), Operation.current == self end
local Mirror = Download:subclass "Mirror"
function Mirror:main() return "mirror of " .. Download.main(self), self:isKindOf(Mirror), self:isKindOf(Download) end
local download, mirror = Download.new "http://example.org/a", Mirror.new "http://example.net/b"
download.tries = 1
print(wait(download))
print(download.visited, download.results[2], download.results[3])
print(wait(mirror))
print(mirror.results[2], mirror.results[3])

print(wait(Operation.new { name = "ends itself", asynchronous = true, main = function(op) op:finish("now", 2) end }))
print(wait(Operation.new { name = "fails itself", asynchronous = true, main = function(op) op:fail "not today" end }))
print(wait(Operation.new { name = "raises", asynchronous = true, main = function() error "no network" end }))
print(wait(Operation.new { name = "waits", asynchronous = true, main = function(op) opscript.sleep(0.01) op:finish "later" end }))

local block = opscript.BlockOperation.new(function() return "first" end)
block:addExecutionBlock(function() return "second" end)
block:addExecutionBlock(function() return "third", 3 end)
queue:addOperation(block)
block:waitUntilFinished()
print(block.executionBlocks, block.results.n, table.concat(block.results, " "))
print(wait(opscript.InvocationOperation.new({ n = 4, get = function(self, k) return self.n * k end }, "get", 3)))

local group = opscript.GroupOperation.new { name = "group", operations = { function() return 1 end, function() return 2 end } }
print(wait(group))
print(table.concat(group.results, " "))

local order, told = {}, opscript.channel()
local function completion()
  order[#order + 1] = "before"
  told:send(true)
end
for i = 1, 4 do queue:addOperation(Operation.new { main = function() opscript.sleep(0.005) return i end, completionBlock = completion }) end
queue:addBarrierBlock(function() return "barrier" end)
queue:addOperation(function() return 1 end):waitUntilFinished()
for _ = 1, 4 do told:receive() end
print(table.concat(order, " "))

local pattern = "^%s*(.-)%s*$"
opscript.prelude(function() trim = function(s) return s:match(pattern) end end)
print(select(4, wait(Operation.new(function() return "[" .. trim "  x " .. "]" end))))
opscript.prelude(function() twice = function(s) return trim(s) .. trim(s) end end)
print(select(4, wait(Operation.new(function() return twice " y " end))))

local geometry = require "folder.geometry"
print(geometry.area(2), select(4, wait(Operation.new(function() return geometry.area(3) end))))
print(select(4, wait(Operation.new(function() return require "folder.geometry".area(4) end))))
print(select(4, wait(Operation.new(function() return require "later".word() end))))
local e = Operation.new(function() return require "later".fail() end)
queue:addOperation(e):waitUntilFinished()
print(e.error.message)
print(e.error.traceback)

for i, length in queue:map(string.len, { "one", "three", "seventeen" }) do io.write(i, "=", length, " ") end
print()
print(queue:reduce(function(n) return n * n end, function(a, b) return a + b end, { 1, 2, 3, 4, 5 }))
print((queue:forEach(function(n) return n end, { 1, 2, 3 })))
print(pcall(queue.forEach, queue, function(n) if n == 2 then error("input two", 0) end end, { 1, 2, 3 }))
local inner = select(4, wait(Operation.new(function()
  local op = Operation.new(function() return "inner" end)
  OperationQueue.new():addOperation(op)
  op:waitUntilFinished()
  return op.result
end)))
print(inner)
