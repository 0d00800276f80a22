-- Operations that wait for operations cannot starve the pool, however deep they nest.
local OperationQueue = opscript.OperationQueue

local function fibonacci(op, n)
  if n < 2 then return n end
  local queue = OperationQueue.new()
  local left = queue:addOperation(fibonacci, n - 1)
  local right = queue:addOperation(fibonacci, n - 2)
  queue:waitUntilAllOperationsAreFinished()
  return left.result + right.result
end

local op = OperationQueue.new():addOperation(fibonacci, 7)
op:waitUntilFinished()
print("fibonacci", op.result)

local function descend(op, depth)
  if depth == 0 then return 0 end
  local inner = OperationQueue.new():addOperation(descend, depth - 1)
  inner:waitUntilFinished()
  return inner.result + 1
end
op = OperationQueue.new():addOperation(descend, 40)
op:waitUntilFinished()
print("depth", op.result)

-- The same in a single queue.
local queue = OperationQueue.new()
local ops = {}
for i = 1, 50 do
  ops[i] = queue:addOperation(function(_, n)
    local inner = queue:addOperation(function(_, m) return m * 2 end, n)
    inner:waitUntilFinished()
    return inner.result
  end, i)
end
queue:waitUntilAllOperationsAreFinished()
local sum = 0
for _, each in ipairs(ops) do sum = sum + each.result end
print("sum", sum)
