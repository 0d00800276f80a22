-- Prints a picture of a run: when the operations of a small pipeline ran, on which threads, and what waited for what.
--
-- The pipeline waits for four programs, computes with their output, merges the results on a worker, and reports on the main queue.

package.path = (arg[0]:match "^(.*/)" or "./") .. "?.lua;" .. package.path
local svg = require "svg"
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue

-- The run -------------------------------------------------------------------------------------------------------------

local function compute(steps)
  local sum = 0
  for i = 1, steps do sum = sum + i % 7 end
  return sum
end

-- Makes an operation whose results are its start, its end, and the state in which it ran.
local all = {}
local function make(name, kind, dependencies, body, ...)
  local op = Operation.new { name = name, dependencies = dependencies, arguments = { ... }, main = function(_, ...)
    local start = opscript.now()
    body(...)
    return start, opscript.now(), tostring(string) -- each state has its own table `string`
  end }
  all[#all + 1] = { op = op, kind = kind }
  return op
end

local queue, parses = OperationQueue.new "pipeline", {}
for i = 1, 4 do
  local fetch = make("fetch " .. i, "program", {}, function(seconds) opscript.process({ "sleep", seconds, slots = 0 }):wait() end, ("%.3f"):format(0.008 + 0.006 * i))
  parses[i] = make("parse " .. i, "lua", { fetch }, compute, 700000 + 250000 * i)
end
local merge = make("merge", "lua", parses, compute, 700000)
local report = make("report", "main", { merge }, compute, 250000)

-- Creates the threads and states first, since the picture does not show how they are made.
local warm = {}
for i = 1, 4 do
  warm[i] = queue:addOperation(function() opscript.process({ "sleep", "0.02", slots = 0 }):wait() compute(100000) end)
end
queue:waitUntilAllOperationsAreFinished()

local zero = opscript.now()
for _, entry in ipairs(all) do
  if entry.kind ~= "main" then queue:addOperation(entry.op) end
end
OperationQueue.main:addOperation(report)
report:waitUntilFinished()
local last = 0
for _, entry in ipairs(all) do
  if entry.op.error then error(entry.op.error.message, 0) end
  entry.start, entry.stop = (entry.op.results[1] - zero) * 1000, (entry.op.results[2] - zero) * 1000
  last = math.max(last, entry.stop)
end

-- The picture ---------------------------------------------------------------------------------------------------------

local lanes, count = {}, 0
local ordered = table.move(all, 1, #all, 1, {})
table.sort(ordered, function(a, b) return a.start < b.start end)
for _, entry in ipairs(ordered) do
  local state = entry.op.results[3]
  if entry.kind ~= "main" and not lanes[state] then
    count = count + 1
    lanes[state] = count
  end
end
lanes[report.results[3]] = count + 1

local width, left, top, laneHeight = 760, 110, 40, 40
local height = top + laneHeight * (count + 1) + 56
local scale = (width - left - 60) / last
local picture = svg.new(width, height, "A run of ten operations: when and where each ran, and what it waited for")
local function x(time) return left + time * scale end
local function y(entry) return top + laneHeight * (lanes[entry.op.results[3]] - 1) end
local colours = { program = "#bf8700", lua = "#0969da", main = "#1a7f37" }

for lane = 1, count + 1 do
  local middle = top + laneHeight * (lane - 1) + laneHeight / 2
  picture:line(left, middle, width - 16, middle, { stroke = "#eaeef2" })
  picture:text(16, middle + 4, lane <= count and "thread " .. lane or "main state", {})
end
local step = last > 120 and 20 or 10
for time = 0, last, step do
  picture:line(x(time), top - 6, x(time), height - 50, { stroke = "#eaeef2" })
  picture:text(x(time), top - 12, math.tointeger(time) .. " ms", { fill = "#59636e", ["font-size"] = "11", ["text-anchor"] = "middle" })
end
local entries = {}
for _, entry in ipairs(all) do entries[entry.op] = entry end
for _, entry in ipairs(all) do
  for _, dependency in ipairs(entry.op.dependencies) do
    local from = entries[dependency]
    picture:curve(x(from.stop), y(from) + laneHeight / 2, x(entry.start), y(entry) + laneHeight / 2, { stroke = "#8c959f" })
  end
end
for _, entry in ipairs(all) do
  local length = math.max(3, (entry.stop - entry.start) * scale)
  picture:rectangle(x(entry.start), y(entry) + 7, length, laneHeight - 14, { rx = 4, fill = colours[entry.kind] })
  local name = entry.op.name
  if length > 7 * #name then
    picture:text(x(entry.start) + length / 2, y(entry) + laneHeight / 2 + 4, name, { fill = "#ffffff", ["text-anchor"] = "middle" })
  else
    picture:text(x(entry.start) + length + 5, y(entry) + laneHeight / 2 + 4, name, {})
  end
end
local legend = { { "program", "waits for a program: takes no core" }, { "lua", "computes in Lua" }, { "main", "in the script's own state" } }
local at = left
for _, item in ipairs(legend) do
  picture:rectangle(at, height - 30, 12, 12, { rx = 2, fill = colours[item[1]] })
  picture:text(at + 18, height - 20, item[2], { fill = "#59636e" })
  at = at + 40 + 6.4 * #item[2]
end
picture:write(io.stdout)
