-- Maps over tables, iterators, lines and other maps; errors; reduce and forEach.
local queue = opscript.OperationQueue.new "mapped"

local function square(x) return x * x end
local function add(a, b) return a + b end

for i, x in queue:map(square, { 1, 2, 3 }) do print("square", i, x) end
for i, x in queue:map(function(x) return x end, { "a", nil, "c" }) do print("nil", i, x) end
for i, x in queue:map(string.upper, ("one two"):gmatch "%a+") do print("upper", i, x) end
for i, x in queue:map(square, (queue:map(square, { 2, 3 }))) do print("twice", i, x) end

local n = 0
for i, x in queue:map(square, function() n = n + 1 return n end) do
  if i == 100 then
    print("endless", x)
    break
  end
end

print("sum", queue:reduce(square, add, { 1, 2, 3, 4 }), queue:reduce(square, add, {}), queue:reduce(square, add, {}, { initial = 0 }))
print("lines", queue:forEach(string.len, opscript.lines(arg[0])) > 30)

local function picky(x)
  if x == 2 then error "no twos" end
  return x
end
for i, x, problem in queue:map(picky, { 1, 2, 3 }, { onError = "collect" }) do print("collect", i, x, problem) end
local count, problems = queue:forEach(picky, { 1, 2, 2 }, { onError = "collect" })
print("forEach", count, problems[1], problems[2].kind, problems[3].message)

print(opscript.waitForAny { queue:addOperation(function() return 1 end) }.result, opscript.workerCount() >= 1)
print(select(2, pcall(function()
  for i, x in queue:map(picky, { 1, 2, 3 }, { name = "picky" }) do print("raise", i, x) end
end)))
print(select(2, pcall(function() queue:map(print, { 1 }, { inFlight = "many" }) end)))
