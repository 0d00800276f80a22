-- Groups: one operation to the outside, a queue inside.
local Operation, GroupOperation = opscript.Operation, opscript.GroupOperation
local queue = opscript.OperationQueue.new()

-- Members may be operations and functions; they may add more.
local function countdown(op, n)
  if n > 0 then op.group:addOperation(countdown, n - 1) end
  return n
end
local group = GroupOperation.new { name = "count", operations = { function() return "first" end } }
group:addOperation(countdown, 3)
local after = Operation.new { dependencies = { group }, main = function() return group.isFinished, group.results.n end }
queue:addOperations({ after, group }, true)
print(after.results[1], after.results[2], table.concat(group.results, " "))
print(group, group:isKindOf(GroupOperation), group:isKindOf(Operation))

-- The first failure is the group's.
local partial = GroupOperation.new { name = "partial", maxConcurrentOperationCount = 1, operations = {
  Operation.new { name = "a", main = function() return 1 end },
  Operation.new { name = "b", main = function() error("broken", 0) end },
  Operation.new { name = "c", main = function() return 3 end },
} }
queue:addOperation(partial)
partial:waitUntilFinished()
print(partial, partial.error.message, partial.error.member.name, partial.results[1], partial.results[2], partial.results[3])

-- Dependencies hold the members back; cancelling reaches them.
local gate = Operation.new { name = "gate" }
local held = GroupOperation.new { name = "held", dependencies = { gate }, operations = { Operation.new { name = "m" } } }
queue:addOperation(held)
print((held:why()))
print((held.operations[1]:why()))
held:cancel()
queue:waitUntilAllOperationsAreFinished()
print(held, held.operations[1])

-- Groups in groups.
local leaf = GroupOperation.new { operations = { function() return "leaf" end } }
for _ = 1, 2000 do leaf = GroupOperation.new { operations = { leaf } } end
queue:addOperation(leaf):waitUntilFinished()
local depth = 0
while leaf.operations do leaf, depth = leaf.operations[1], depth + 1 end
print(depth, leaf.result)
