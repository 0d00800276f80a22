-- Operations that bodies make: unread failures are reported, those that a body reads are not. The last lines make a failure with a cause.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "nested"

local function fails(message)
  local inner = OperationQueue.new "inner":addOperation(function() error(message) end)
  inner:waitUntilFinished()
  return inner
end

for i = 1, 20 do
  queue:addOperation(function()
    local inner = fails("read")
    assert(inner.error.message:find "read")
  end)
end
queue:waitUntilAllOperationsAreFinished()
queue:addOperation(function() fails("nobody reads this") end):waitUntilFinished()

local dep = queue:addOperation(Operation.new { name = "dep", main = function() error "no result" end })
queue:addOperation(Operation.new { name = "next", dependencies = { dep }, main = function() return dep.result + 1 end })
