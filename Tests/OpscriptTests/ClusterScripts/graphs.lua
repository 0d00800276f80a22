-- Dependencies, conditions, policies, captured operations, and operations that are tried again.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "graphs"
local function add(options)
  local op = Operation.new(options)
  queue:addOperation(op)
  return op
end
local function outcome(op)
  op:waitUntilFinished()
  return op.name, op.isCancelled, op.error and op.error.kind, op.error and op.error.message, op.result
end

local one = add { name = "one", main = function(op) op.stored = "kept" return 1, { "second" } end }
local two = add { name = "two", dependencies = { one }, main = function(op)
  local one = op.dependencies[1]
  return one.name, one.result, one.results[2][1], one.results.n, one.stored, one.isFinished, #op.dependencies
end }
two:waitUntilFinished()
print(table.unpack(two.results, 1, two.results.n))
local captured = add { name = "captured", dependencies = { two }, main = function() return two.results[3], tostring(two), one.result end }
captured:waitUntilFinished()
print(table.unpack(captured.results, 1, 3))

local failed = add { name = "failed", main = function() error { code = 7 } end }
print(outcome(add { name = "after", dependencies = { failed }, main = function(op)
  local e = op.dependencies[1].error
  return e.value.code .. " " .. e.kind .. " " .. tostring(op.dependencies[1].result)
end }))
local skipped = add { name = "skipped", dependencies = { failed }, dependencyPolicy = "succeeded", main = print }
print(outcome(skipped))
print(outcome(add { name = "after the skipped", dependencies = { skipped }, main = function() return skipped.error.message end }))
print(outcome(add { name = "condition holds", dependencies = { one }, conditions = { function() return one.result == 1 end }, main = function() return "ran" end }))
print(outcome(add { name = "condition fails", conditions = { function() return false, "today" end }, main = print }))
print(outcome(add { name = "needs a success", dependencies = { failed }, conditions = { "noFailedDependencies" }, main = print }))

local flaky = add { name = "flaky", retry = { attempts = 4, delay = 0.001, when = function(e) return e.value.again end }, main = function(op)
  if op.attempt < 3 then error { again = true, attempt = op.attempt } end
  return op.attempt
end }
print(outcome(flaky))
print(flaky.attempt, #flaky.attempts, flaky.attempts[2].value.attempt)
local hopeless = add { name = "hopeless", retry = 3, main = function(op) error("attempt " .. op.attempt, 0) end }
print(outcome(hopeless))
local slow = add { name = "slow at first", retry = 2, timeout = 0.2, main = function(op)
  while op.attempt == 1 do end
  return "second"
end }
print(outcome(slow))
print(slow.attempts[1].kind)

local diamond, last = {}, nil
for i = 1, 40 do
  local dependencies = {}
  for _, other in ipairs { i - 1, i - 2, i // 3 } do dependencies[#dependencies + 1] = diamond[other] end
  diamond[i] = add { name = "d" .. i, dependencies = dependencies, main = function(op)
    local sum = 1
    for _, dependency in ipairs(op.dependencies) do sum = (sum + dependency.result) % 1000003 end
    return sum
  end }
end
print(outcome(diamond[40]))

opscript.resources { gpu = 1 }
local exclusive = {}
for i = 1, 6 do exclusive[i] = add { name = "exclusive", exclusive = "key", needs = { gpu = 1 }, main = function() return i end } end
local sum = 0
for _, op in ipairs(exclusive) do op:waitUntilFinished() sum = sum + op.result end
print(sum)
