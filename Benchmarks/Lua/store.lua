-- Builds files with a store, or computes values with one: store.lua files|values COUNT. Run in a folder of its own.
-- Prints how many operations have run.
local kind, count = arg[1], math.tointeger(arg[2])
local queue, operations = opscript.OperationQueue.new(), {}

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

-- The work of a compiler, as far as the store sees it.
local function compile(op, source, object, depfile)
  write(object, "object of " .. source)
  write(depfile, object .. ": " .. source .. " h0.h h1.h h2.h h3.h h4.h\n")
end

local function value(op, number) return number * 2 end

for i = 1, count do
  local name = "f" .. i
  operations[i] = kind == "files" and opscript.Operation.new {
    main = compile, arguments = { name .. ".c", name .. ".o", name .. ".d" },
    inputs = name .. ".c", outputs = name .. ".o", depfile = name .. ".d",
  } or opscript.Operation.new { main = value, arguments = { i }, memoize = true }
  queue:addOperation(operations[i])
end
queue:waitUntilAllOperationsAreFinished()
local ran = 0
for _, op in ipairs(operations) do if not op.isSkipped then ran = ran + 1 end end
print(ran)
