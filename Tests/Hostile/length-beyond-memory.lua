-- expect: ok
local huge = {}
for i = 45, 0, -1 do huge[1 << i] = i end
local queue = opscript.OperationQueue.new()
for _, use in ipairs {
  function() queue:addOperations(huge) end,
  function() opscript.waitForAny(huge) end,
  function() opscript.Operation.new { main = print, dependencies = huge } end,
  function() opscript.Operation.new { main = print, conditions = huge } end,
  function() opscript.Operation.new { main = print, exclusive = huge } end,
  function() return opscript.freeze(huge) end,
} do pcall(use) end
package.searchers = huge
local op = queue:addOperation(function(_, t) return t end, huge)
pcall(op.waitUntilFinished, op)
local group = opscript.GroupOperation.new()
pcall(function() group.operations = huge end)
