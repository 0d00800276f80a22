-- An operation ends with results or with an error object.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local several = Operation.new(function() return { 1 }, nil, "three", nil end)
print("before", several.result, several.results, several.error)
queue:addOperation(several)
several:waitUntilFinished()
print("after", several.results.n, several.result[1], several.results[3], several.error)
print("decoded once", several.result == several.result, several.results == several.results, several.result == several.results[1])

local none = queue:addOperation(function() end)
none:waitUntilFinished()
print("none", none.result, none.results.n)

-- An error raised as a string has a position.
local function inner() error "broken" end
local failed = queue:addOperation(function() inner() end)
failed:waitUntilFinished()
local e = failed.error
print("message", e.message, tostring(e), e.value, e.kind)
print("same", failed.error == e, e.operation == failed, failed.result, failed.results)
print("traceback", e.traceback:match "^stack traceback:" ~= nil, e.traceback:find("results.lua:17:", 1, true) ~= nil, e.traceback:find("results.lua:18:", 1, true) ~= nil)

-- Any value can be raised.
local function outcome(f)
  local op = queue:addOperation(f)
  op:waitUntilFinished()
  return op.error
end
e = outcome(function() error { code = 7, list = { 1, 2 } } end)
print("table", e.value.code, #e.value.list, e.kind)
e = outcome(function() error() end)
print("nil", e.value, e.kind)
e = outcome(function() error("no place", 0) end)
print("level 0", e.message)
e = outcome(function() error(setmetatable({}, { __tostring = function() return "described" end })) end)
print("__tostring", e.message)
e = outcome(function() local x = nil; return x.field end)
print("runtime", e.message)
e = outcome(function() return #undefined end)
print("global", e.message)

-- A body can catch errors as usual, and other operations can read them.
local caught = queue:addOperation(function() return pcall(error, "inside", 0) end)
local reader = Operation.new(function() return failed.error.message, failed.error.kind, failed.error.operation == failed end)
queue:addOperations({ reader }, true)
caught:waitUntilFinished()
print("caught", caught.results[1], caught.results[2], caught.error)
print("elsewhere", table.unpack(reader.results))
