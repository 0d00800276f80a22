#!/usr/bin/env opscript
-- sum.lua FILE [MEGABYTES]: adds up the numbers at the ends of a log's lines by the lines' first words, in pieces of 32 MB on all cores.
local path, size = assert(arg[1], "usage: sum.lua FILE [MEGABYTES]"), math.ceil((arg[2] or 32) * 2 ^ 20)

local function sum(first)                                    -- the lines that begin in one piece of the file
  local file <close> = assert(io.open(path))
  local sums, position = {}, first
  if first > 0 then                                          -- a line that began earlier belongs to the piece before
    file:seek("set", first - 1)
    position = first - 1 + #file:read "L"
  end
  for line in file:lines "L" do
    if position >= first + size then break end
    position = position + #line
    local key, value = line:match "^(%S+).*%s(-?[%d.]+)%s*$"
    if key then sums[key] = (sums[key] or 0) + tonumber(value) end
  end
  return sums
end

local function add(a, b)
  for key, value in pairs(b) do a[key] = (a[key] or 0) + value end
  return a
end

local pieces = {}
for first = 0, assert(io.open(path)):seek "end" - 1, size do pieces[#pieces + 1] = first end
for key, value in pairs(opscript.OperationQueue.new():reduce(sum, add, pieces, { initial = {} })) do print(key, value) end
