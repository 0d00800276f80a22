-- A value that cannot be sent is an error at the line that adds the operation. The message has the path to the value.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

-- Prints the path, and whether a remedy follows.
local function refused(f)
  local ok, message = pcall(f)
  message = tostring(message)
  local path, rest = message:match "^(.-cannot send [^;]*)(;.*)$"
  print(ok, path or message, rest and #rest > 10)
end

local conn = { socket = io.tmpfile() }
local deep = { { list = { 1, { print, conn.socket } } } }
local thread = coroutine.create(print)
gfile = { list = { {}, { conn.socket } } }
local function usesIt() return conn end

refused(function() queue:addOperation(function() return conn end) end)
refused(function() queue:addOperation(function() return usesIt() end) end)
refused(function() queue:addOperation(function() return deep end) end)
refused(function() queue:addOperation(function() return thread end) end)
refused(function() queue:addOperation(function() return gfile end) end)
refused(function() queue:addOperation(print, io.tmpfile()) end)
refused(function() queue:addOperation(function() end, 1, { handle = io.tmpfile() }) end)
refused(function() queue:addOperation(function() end, { [io.tmpfile()] = 1 }) end)
refused(function() queue:addOperation(function() end, coroutine.wrap(print)) end)
print("nothing was added", queue.operationCount)

-- The function is sent when the operation is added, not when it is made.
local later = Operation.new(function() return conn end)
refused(function() queue:addOperation(later) end)
conn.socket = nil
queue:addOperation(later)
later:waitUntilFinished()
print("then it goes", next(later.result))

-- A result that cannot be sent becomes the error of its operation.
local op = queue:addOperation(function() return 1, { handle = io.tmpfile() } end)
op:waitUntilFinished()
print(op.result, (op.error.message:gsub(";.*", "")), op.error.kind)
