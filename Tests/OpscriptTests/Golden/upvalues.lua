-- A function takes its variables along. Functions that share a variable still share it on arrival.
local queue = opscript.OperationQueue.new()

local count = 10
local function increment() count = count + 1 end
local function get() return count end

local op = queue:addOperation(function()
  increment()
  increment()
  return get(), count
end)
op:waitUntilFinished()
print("shared on arrival", op.results[1], op.results[2])
print("a copy", count, get())

-- Each run starts from the copy that was made when the operation was added.
local ops = {}
for i = 1, 3 do
  count = i
  ops[i] = queue:addOperation(function()
    increment()
    return count
  end)
end
count = 100
queue:waitUntilAllOperationsAreFinished()
print("each its own", ops[1].result, ops[2].result, ops[3].result)

-- Functions that come back as results still share their variables.
op = queue:addOperation(function()
  local n = 0
  return function() n = n + 1 end, function() return n end
end)
op:waitUntilFinished()
local bump, read = op.results[1], op.results[2]
bump()
bump()
print("back", read())

-- Recursion, mutual recursion, methods, varargs, loop variables, and coroutines made inside a body.
local function fibonacci(n) return n < 2 and n or fibonacci(n - 1) + fibonacci(n - 2) end
local isOdd
local function isEven(n) return n == 0 or isOdd(n - 1) end
function isOdd(n) return n ~= 0 and isEven(n - 1) end
local account = { balance = 1 }
function account:deposit(n) self.balance = self.balance + n end
op = queue:addOperation(function(_, ...)
  account:deposit(41)
  local generate = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i * i) end end)
  return fibonacci(20), isEven(10), isOdd(10), account.balance, select("#", ...), generate() + generate() + generate()
end, nil, nil)
op:waitUntilFinished()
print("kinds", table.unpack(op.results, 1, op.results.n))
print("untouched", account.balance)
