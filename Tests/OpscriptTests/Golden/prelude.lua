-- A prelude runs once in every worker's state, before the next operation there, with the state's own globals.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new { maxConcurrentOperationCount = 1 }
local function run(f, ...)
  local op = queue:addOperation(f, ...)
  op:waitUntilFinished()
  if op.error then return "error: " .. op.error.message end
  return table.unpack(op.results, 1, op.results.n)
end

print("before", run(function() return string.trim, trim end))
local pattern = "^%s*(.-)%s*$"
opscript.prelude(function()
  function string.trim(s) return s:match(pattern) end
  trim = string.trim
  count = (count or 0) + 1
end)
print("after", run(function() return ("  x "):trim(), trim "  y ", count end))
print("once", run(function() count = count + 10 return count end), run(function() return count end))
print("not here", string.trim, trim, count)

-- A global that the script sets takes precedence over the prelude's.
count = "the script's"
print("own", run(function() return count end))
count = nil
print("the prelude's", run(function() return count end))

-- Preludes run in order, and a worker's state may add one.
opscript.prelude(function() order = { "first" } end)
opscript.prelude(function() order[#order + 1] = "second" end)
run(function() opscript.prelude(function() order[#order + 1] = "third" end) end)
print("order", run(function() return table.concat(order, " ") end))

-- A function that reads the prelude's globals can be sent from worker to worker.
print("on", run(function()
  local inner = opscript.Operation.new(function() return trim "  z  ", order[1] end)
  opscript.OperationQueue.new():addOperation(inner)
  inner:waitUntilFinished()
  return table.unpack(inner.results)
end))

-- Errors.
print(pcall(opscript.prelude, 12))
local file = io.tmpfile()
print(select(2, pcall(opscript.prelude, function() return file end)))
opscript.prelude(function()
  local was = ready
  ready = true
  if not was then error "not ready" end
end)
print(run(function() return "ran" end))
local result
repeat result = run(function() return "ran" end) until result == "ran"  -- each worker's state tries again
print(result)
