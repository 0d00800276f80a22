-- An operation that executes for longer than its timeout is stopped. Its worker can be used afterwards.
local Operation, queue = opscript.Operation, opscript.OperationQueue.new()
local bodies = {
  loop = function() while true do end end,
  pcall = function() while true do pcall(function() while true do end end) end end,
  sleep = function() opscript.sleep(1e6) end,
  process = function() opscript.process { "sleep", 1000 }:wait() end,
}
local names = {}
for name in pairs(bodies) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local op = Operation.new { name = name, main = bodies[name], timeout = 0.05 }
  queue:addOperation(op):waitUntilFinished()
  print(op, op.isCancelled, op.error.kind, op.error.message)
end
local inTime = Operation.new { timeout = 60, main = function() return "in time" end }
queue:addOperation(inTime):waitUntilFinished()
print(inTime.result, inTime.timeout)
print(pcall(function() inTime.timeout = -1 end))
queue:addOperation(Operation.new { name = "unread", timeout = 0.05, main = function() while true do end end })
