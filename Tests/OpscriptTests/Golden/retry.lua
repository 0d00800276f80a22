-- Operations that are tried again.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local op = Operation.new { name = "flaky", retry = { attempts = 4, delay = 0.001 }, main = function(op, list)
  list[#list + 1] = op.attempt
  if op.attempt < 3 then error("attempt " .. op.attempt .. " failed", 0) end
  return table.concat(list, " ")
end, arguments = { { 0 } } }
op.completionBlock = function(op) print(op, op.result) end
queue:addOperation(op):waitUntilFinished()
for i, e in ipairs(op.attempts) do print(i, e.kind, e, e.operation == op) end
print(op.error, op.attempt)

-- An asynchronous operation, and one that `when` gives up.
local async = Operation.new { name = "async", asynchronous = true, retry = 3, main = function(op)
  opscript.after(0, function() if op.attempt == 3 then op:finish "third" else op:fail { n = op.attempt } end end)
end }
local fatal = Operation.new { name = "fatal", retry = { attempts = 9, when = function(e) return e.value.n < 2 end }, main = function(op)
  error { n = op.attempt }
end }
queue:addOperations({ async, fatal }, true)
print(async.result, #async.attempts, async.attempts[2].value.n)
print(fatal.attempt, fatal.error.value.n, fatal.isCancelled)

-- Cancelling ends a pause. The last error counts, and stays unread.
local paused = Operation.new { name = "paused", retry = { attempts = 2, delay = 3600 }, main = function() error "first" end }
queue:addOperation(paused)
local deadline = opscript.now() + 60
repeat
  assert(opscript.now() < deadline, "'paused' has not failed within a minute")
  opscript.sleep(0.001)  -- no event tells that a pause has begun
until #paused.attempts > 0
local sentence, fields = paused:why()
print((sentence:gsub("%d+%.?%d* s$", "N s")), fields.nextAttempt)
paused:cancel()
paused:waitUntilFinished()
print(paused, paused.error)
queue:addOperation(Operation.new { name = "unread", retry = 2, main = function(op) error("attempt " .. op.attempt, 0) end })
