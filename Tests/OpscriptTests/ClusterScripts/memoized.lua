-- Work that is done is not done again. The store is at home. The test runs this script twice.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "memoized"
for i = 1, 4 do
  local op = Operation.new { name = "step " .. i, memoize = true, arguments = { i }, main = function(op, i)
    op.stored = "stored " .. i
    return i * i, ("x"):rep(100000)
  end }
  queue:addOperation(op):waitUntilFinished()
  print(op.name, op.isSkipped, op:whyRun(), op.result, #op.results[2], op.stored)
end
local failing = Operation.new { name = "failing", memoize = true, main = function() error("fails", 0) end }
queue:addOperation(failing):waitUntilFinished()
print(failing.isSkipped, failing.error)
