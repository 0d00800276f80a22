#!/usr/bin/env opscript
-- Counts the words in files, on all cores.
--
--   wordcount.lua [--all] [FILE or DIRECTORY]...
--
-- A directory stands for the regular files below it and the symbolic links to regular files. Links to
-- directories are not followed. Without an argument, the script reads the licence texts that every Debian has. A word is a
-- maximal run of the letters A-Z and a-z, in lower case.
--
-- Prints the number of words as `N total`, and then the 20 most frequent words (--all: every word) as `N word`, most frequent
-- first, ties in alphabetical order. Prints the names of unreadable files to stderr, counts the others,
-- and exits with status 1.

local Operation, OperationQueue, fs = opscript.Operation, opscript.OperationQueue, opscript.fs

local all, paths, failed = false, {}, false

-- Arguments ---------------------------------------------------------------------------------------------------------

local function has(path, kind) return (fs.stat(path) or {}).type == kind end

-- An error of the walk is a directory that cannot be read. The walk goes on after that.
local function addFilesBelow(directory)
  local walk = fs.walk(directory, { hidden = true })
  while true do
    local ok, path, kind = pcall(walk)
    if not ok then
      io.stderr:write("wordcount: ", path, "\n")
      failed = true
    elseif not path then
      return
    elseif kind == "file" or kind == "link" and has(path, "file") then
      paths[#paths + 1] = path
    end
  end
end

local names, options = {}, true
for _, word in ipairs(arg) do
  if options and word == "--all" then
    all = true
  elseif options and word == "--" then
    options = false
  elseif options and word:find "^%-." then
    io.stderr:write("wordcount: unknown option ", word, "\nusage: wordcount.lua [--all] [FILE or DIRECTORY]...\n")
    os.exit(1)
  else
    names[#names + 1] = word
  end
end
if #names == 0 then names[1] = "/usr/share/common-licenses" end
for _, name in ipairs(names) do
  if has(name, "directory") then addFilesBelow(name) else paths[#paths + 1] = name end
end

-- Operations --------------------------------------------------------------------------------------------------------

-- Runs on a worker. Returns the number of occurrences of each word in a file.
local function countWords(_, path)
  local file <close>, why = io.open(path, "rb")
  if not file then error(why, 0) end
  local text, why = file:read "a"
  if not text then error(path .. ": " .. why, 0) end
  local counts = {}
  for word in text:lower():gmatch "[a-z]+" do counts[word] = (counts[word] or 0) + 1 end
  return counts
end

local counters = {}
for i, path in ipairs(paths) do
  counters[i] = Operation.new { name = path, main = countWords, arguments = { path } }
end

-- Runs on a worker, once all files are counted.
local merge = Operation.new { name = "merge", main = function()
  local total, counts, words = 0, {}, {}
  for _, counter in ipairs(counters) do
    for word, count in pairs(counter.result or {}) do
      if not counts[word] then words[#words + 1] = word end
      counts[word] = (counts[word] or 0) + count
      total = total + count
    end
  end
  table.sort(words, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a < b
  end)
  local lines = { total .. " total\n" }
  for i = 1, all and #words or math.min(20, #words) do lines[i + 1] = counts[words[i]] .. " " .. words[i] .. "\n" end
  return table.concat(lines)
end }

-- Runs here, on the main queue.
local report = Operation.new { name = "report", main = function() io.write(merge.result) end }

-- Completion blocks run here, too, on the variables themselves.
local filesDone, unfinished = 0, #counters + 1

local function completed()
  unfinished = unfinished - 1
  if unfinished > 0 then return end
  io.stderr:write(filesDone, filesDone == 1 and " file\n" or " files\n")
  if failed then os.exit(1) end
end

for _, counter in ipairs(counters) do
  merge:addDependency(counter)
  counter.completionBlock = function(op)
    if op.error then
      failed = true
      io.stderr:write("wordcount: ", op.error.message, "\n")
    else
      filesDone = filesDone + 1
    end
    completed()
  end
end
report:addDependency(merge)
report.completionBlock = completed

local queue = OperationQueue.new "files"
queue:addOperations(counters, false)
queue:addOperation(merge)
OperationQueue.main:addOperation(report)
