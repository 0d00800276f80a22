-- Every kind of value arrives unchanged, as an argument and as a result.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new()

local bytes = {}
for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end

local values = table.pack(
  nil, true, false, 0, -1, math.maxinteger, math.mininteger, 1.0, -0.0, 0.1, 2 ^ 53, 1e308, 5e-324, math.huge, -math.huge, 0 / 0,
  "", "a\0b", table.concat(bytes), ("x"):rep(100000), {}, { 1, 2, nil, 4 }, { a = { b = { c = "d" } } }, { [1.5] = true, [true] = 1 }, nil)

local function show(value)
  if math.type(value) then return string.format(math.type(value) == "integer" and "integer %d" or "float %a", value) end
  if type(value) == "string" then
    return #value < 10 and string.format("%q", value) or string.format("string of %d, %s", #value, value == table.concat(bytes))
  end
  return type(value) == "table" and "table" or tostring(value)
end

local op = queue:addOperation(function(_, ...) return ... end, table.unpack(values, 1, values.n))
op:waitUntilFinished()

local results = op.results
print("count", results.n)
for i = 1, results.n do
  print(i, show(results[i]), show(results[i]) == show(values[i]))
end
print(results[22][1], results[22][2], results[22][3], results[22][4])
print(results[23].a.b.c, results[24][1.5], results[24][true])
print("result is the first", op.result)
