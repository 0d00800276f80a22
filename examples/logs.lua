#!/usr/bin/env opscript
-- Counts how often each package was installed, upgraded and removed, by day, according to a log.
--
--   logs.lua [FILE]...
--
-- Reads logs of dpkg (`2026-01-31 12:00:00 install zlib1g:amd64 <none> 1:1.2.13`), by default /var/log/dpkg.log.
-- Each file is cut into pieces of some MB, which are read on all cores.

local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local pieceSize = 4 * 1024 * 1024

-- Runs on a worker: counts the lines that begin in this piece of the file.
local function count(op, path, first)
  local file <close> = assert(io.open(path, "rb"))
  file:seek("set", first)
  if first > 0 then
    file:seek("set", first - 1)
    file:read "L" -- the rest of a line that began in the piece before
  end
  local days, packages = {}, {}
  while file:seek() < first + pieceSize and not op.isCancelled do
    local line = file:read "l"
    if not line then break end
    local day, action, package = line:match "^(%d+%-%d+%-%d+) %S+ (%a+) ([^:%s]+)"
    if action == "install" or action == "upgrade" or action == "remove" then
      days[day] = days[day] or { install = 0, upgrade = 0, remove = 0 }
      days[day][action] = days[day][action] + 1
      packages[package] = (packages[package] or 0) + 1
    end
  end
  return days, packages
end

local pieces = {}
for _, path in ipairs(#arg > 0 and arg or { "/var/log/dpkg.log" }) do
  local file <close>, why = io.open(path, "rb")
  if not file then
    io.stderr:write("logs: ", why, "\n")
    os.exit(1)
  end
  for first = 0, file:seek "end" - 1, pieceSize do
    pieces[#pieces + 1] = Operation.new { name = ("%s from %d MB"):format(path, first >> 20), main = count, arguments = { path, first } }
  end
end

local sum = Operation.new { name = "sum", main = function()
  local days, packages = {}, {}
  for _, piece in ipairs(pieces) do
    if piece.error then error(piece.error.message, 0) end
    for day, actions in pairs(piece.results[1]) do
      days[day] = days[day] or { install = 0, upgrade = 0, remove = 0 }
      for action, n in pairs(actions) do days[day][action] = days[day][action] + n end
    end
    for package, n in pairs(piece.results[2]) do packages[package] = (packages[package] or 0) + n end
  end
  return days, packages
end }
for _, piece in ipairs(pieces) do sum:addDependency(piece) end
OperationQueue.new("logs"):addOperations({ sum, table.unpack(pieces) }, true)

local function sortedKeys(t, before)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, before)
  return keys
end

local days, packages = sum.results[1], sum.results[2]
for _, day in ipairs(sortedKeys(days)) do
  local n = days[day]
  print(("%s  %d installed, %d upgraded, %d removed"):format(day, n.install, n.upgrade, n.remove))
end
local names = sortedKeys(packages, function(a, b)
  if packages[a] ~= packages[b] then return packages[a] > packages[b] end
  return a < b
end)
for i = 1, math.min(5, #names) do print(packages[names[i]], names[i]) end
