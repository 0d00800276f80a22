#!/usr/bin/env opscript
-- Parses measurements, removes those that cannot be right, and adds up the rest. Each step is in the store, and runs again only after a change of
-- its dependencies.

local Operation = opscript.Operation
local queue = opscript.OperationQueue.new "pipeline"

local function parse(op, text)
  local rows = {}
  for day, value in text:gmatch "(%a+) (%d+)" do rows[#rows + 1] = { day = day, value = tonumber(value) } end
  return rows
end

local function report(texts, limit)
  local steps, cleaned = {}, {}
  local function step(name, dependencies, main, ...)
    local op = Operation.new { name = name, memoize = true, dependencies = dependencies, arguments = { ... }, main = main }
    steps[#steps + 1] = op
    return op
  end
  for i, text in ipairs(texts) do
    local parsed = step("parse " .. i, {}, parse, text)
    cleaned[i] = step("clean " .. i, { parsed }, function()
      local kept = {}
      for _, row in ipairs(parsed.result) do
        if row.value < limit then kept[#kept + 1] = row end
      end
      return kept
    end)
  end
  local total = step("total", cleaned, function()
    local sum = 0
    for _, op in ipairs(cleaned) do
      for _, row in ipairs(op.result) do sum = sum + row.value end
    end
    return sum
  end)
  queue:addOperations(steps, true)
  print("total", total.result)
  for _, op in ipairs(steps) do
    if not op.isSkipped then print("", op.name, op:whyRun()) end
  end
end

report({ "mon 1 tue 2", "mon 3 tue 900" }, 100)
report({ "mon 1 tue 2", "mon 3 tue 900" }, 100)  -- nothing has changed
report({ "mon 1 tue 2", "mon 3 tue 4" }, 100)    -- one text has
report({ "mon 1 tue 2", "mon 3 tue 4" }, 50)     -- the limit has; the cleaned data are the same, so the total is
