-- A completion block runs once after the end, however the operation ended, in the state that set it, with its live variables.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local done, depth, seen = 0, 0, {}
local report
local function count(op)
  done = done + 1
  seen[op.name] = (seen[op.name] or 0) + 1
  assert(op.isFinished and not op.isExecuting)
  assert(Operation.current == nil)
  report(op)
end

local succeeded = Operation.new { name = "succeeded", main = function() return 7 end, completionBlock = count }
local failed = Operation.new { name = "failed", main = function() error "no" end }
failed.completionBlock = count
local cancelled = Operation.new { name = "cancelled", main = function() end, completionBlock = count }
cancelled:cancel()
local without = Operation.new { name = "without", main = function() end, completionBlock = count }
without.completionBlock = nil
print("readable", succeeded.completionBlock == count, without.completionBlock)

-- The order of completion blocks is not promised, so the script prints only when all of both kinds have run.
function report(op)
  if done < 3 or depth < 5 then return end
  print("blocks", done, seen.succeeded, seen.failed, seen.cancelled, seen.without, failed.error.message)
  print("too late", pcall(function() op.completionBlock = count end) == false)
end
queue:addOperations({ succeeded, failed, cancelled, without }, true)

-- A completion block may do anything, including adding operations.
local function again(op)
  depth = op.result
  if depth == 5 then return report(op) end
  local another = Operation.new(function(_, n) return n + 1 end, depth)
  another.completionBlock = again
  queue:addOperation(another)
end

local first = Operation.new(function() return 1 end)
first.completionBlock = again
queue:addOperation(first)

print "the script has returned"
