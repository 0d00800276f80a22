-- Shared references stay shared, cycles stay cycles, and keys stay keys.
local queue = opscript.OperationQueue.new()

local shared = { "shared" }
local cycle = { left = shared, right = shared }
cycle.self = cycle
cycle[cycle] = "key"
cycle[shared] = cycle

local op = queue:addOperation(function(_, t, again)
  print("there", t.self == t, t.left == t.right, t[t], t[t.left] == t, t == again)
  t.left[1] = "changed on the worker"
  return t, t.left
end, cycle, cycle)
op:waitUntilFinished()

local t, left = op.results[1], op.results[2]
print("back", t.self == t, t.left == t.right, t[t], t[t.left] == t, t.left == left)
print("copied", t == cycle, t.left[1], shared[1])

-- Weak and ordinary metatables, and a list with a million links.
local list
for i = 1, 1000000 do list = { list, i } end
op = queue:addOperation(function(_, l)
  local n = 0
  local at = l
  while at do n, at = n + 1, at[1] end
  return n, l
end, list)
op:waitUntilFinished()
local n, at = 0, op.results[2]
while at do n, at = n + 1, at[1] end
print("links", op.result, n)
