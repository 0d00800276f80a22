-- The contents of a loaded module travel by name, and the module is required on arrival.
package.path = "modules/?.lua;" .. package.path
local answer = require "answer"
local insert, answerNew = table.insert, answer.new
local queue = opscript.OperationQueue.new()
local function run(...)
  local op = queue:addOperation(...)
  op:waitUntilFinished()
  if op.error then return "error", op.error.message end
  return table.unpack(op.results, 1, op.results.n)
end

print("a module", run(function() return answer.value, answer == require "answer" end))
print("its function", run(function() return answerNew == require("answer").new end))
print("a library's function", run(function() return insert == table.insert end))
print("the module itself", run(function() return opscript == require "opscript", opscript.Operation == require("opscript").Operation end))

-- Back in this state, a module is the original again.
print("back", run(function() return answer end) == answer, run(function() return string.rep end) == string.rep)

-- An object of a module's class is copied, and gets the metatable of the module.
local object = answer.new(21)
print("an object", run(function(_, o) return o:double(), getmetatable(o) == require "answer" end, object))
local back = run(function(_, n) return answer.new(n) end, 4)
print("an object back", back:double(), getmetatable(back) == answer)

-- A module that only this state can load travels by value.
package.loaded.onlyhere = { value = "by value" }
local onlyhere = require "onlyhere"
print("unknown there", run(function() return onlyhere.value, (pcall(require, "onlyhere")) end))

-- Workers have the package.path and the arg of the sender.
print("path", run(function() return package.path:match "^[^;]*", arg[0] end))
