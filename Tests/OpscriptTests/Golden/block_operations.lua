-- Operations with several functions, and operations that call a method.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local BlockOperation, InvocationOperation = opscript.BlockOperation, opscript.InvocationOperation
local queue = OperationQueue.new "queue"

local squares = BlockOperation.new(function(op, n) return n * n end, 2)
for i = 3, 5 do squares:addExecutionBlock(function(op, n) return n * n, "only the first counts" end, i) end
print(squares, squares.executionBlocks)
queue:addOperation(squares)
squares:waitUntilFinished()
print(squares, squares.result, table.concat(squares.results, " "))
print(select(2, pcall(function() squares:addExecutionBlock(print) end)))

local n = 0
local here = BlockOperation.new(function() n = n + 1 return n end)
here:addExecutionBlock(function() n = n + 1 return n end)
here:start()
print(n, table.concat(here.results, " "))

local failing = BlockOperation.new(function() error "wrong" end)
failing.name = "failing"
failing:addExecutionBlock(function(op) op.ran = true end)
queue:addOperation(failing)
failing:waitUntilFinished()
print(failing, failing.error, failing.ran)

local account = { balance = 10 }
function account:add(amount) self.balance = self.balance + amount return self.balance end
function account:close() end
local deposit = InvocationOperation.new(account, "add", 5)
queue:addOperation(deposit)
deposit:waitUntilFinished()
print(deposit, deposit.result, account.balance)
deposit = InvocationOperation.new(account, "add", 5)
deposit:start()
print(deposit.result, account.balance)
local void = InvocationOperation.new(account, "close")
void:start()
print(select(2, pcall(function() return void.result end)))
local cancelled = InvocationOperation.new(account, "close")
cancelled:cancel()
print(select(2, pcall(function() return cancelled.result end)))
print(select(2, pcall(function() InvocationOperation.new(account, "withdraw") end)))
