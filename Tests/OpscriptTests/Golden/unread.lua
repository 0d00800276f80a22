-- Failures that were not read are reported at the end, each with its traceback. Failures that were read are not reported.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new { maxConcurrentOperationCount = 1 }

local function inner(t) return t.field.missing end

queue:addOperation(function()
  local value = inner {}
  return value
end)
local read = queue:addOperation(function() error "read" end)
queue:addOperation(Operation.new { name = "the culprit", main = function() error { code = 7 } end })
queue:addOperation(function() error(setmetatable({}, { __tostring = function() return "described" end })) end)
queue:addOperation(function() print "the last one runs" end)
queue:waitUntilAllOperationsAreFinished()
print(read.error)
