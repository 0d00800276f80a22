-- A function takes along the globals that it and the functions it reaches read. Its assignments stay local.
local queue = opscript.OperationQueue.new()
local function run(...)
  local op = queue:addOperation(...)
  op:waitUntilFinished()
  if op.error then return "error", op.error.message end
  return table.unpack(op.results, 1, op.results.n)
end

factor = 3
settings = { depth = 2 }
function triple(n) return n * factor end
function outer(n) return triple(n) + settings.depth end

print("reached", run(function() return outer(4) end))
factor = 4
print("read when added", run(function() return outer(4) end))

print("assigned", run(function()
  leftover = 1
  _G.other = 2
  load "third = 3" ()
  factor = factor + 1
  return leftover, other, third, factor, _G.leftover, _G == _ENV
end))
print("not in the next", run(function() return leftover, other, third, rawget(_G, "leftover") end))
print("nor here", leftover, other, third, factor)

local realPrint = print
print = function(...) realPrint("my print:", ...) end
run(function() print("overridden", 1) end)
print = realPrint
run(function() print("as it was", 2) end)

print("a global that nobody has", run(function() return missing end))
print("by a name made at run time", run(function() return _G["fac" .. "tor"] end))
