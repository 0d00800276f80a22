#!/usr/bin/env opscript
-- Counts the words of many files. Each file is an operation; this state adds up the counts.

local queue = opscript.OperationQueue.new "words"

local paths = {}
for i, text in ipairs { "to be or not to be", "that is the question", "to sleep perchance to dream" } do
  paths[i] = os.tmpname()
  local file <close> = assert(io.open(paths[i], "w"))
  file:write(text)
end

local function countWords(op, path)                          -- runs on a worker
  local file <close> = assert(io.open(path))
  local counts = {}
  for word in file:read("a"):gmatch "%a+" do counts[word] = (counts[word] or 0) + 1 end
  return counts
end

local counters = {}
for i, path in ipairs(paths) do counters[i] = queue:addOperation(countWords, path) end
queue:waitUntilAllOperationsAreFinished()

local sums, words = {}, {}
for _, counter in ipairs(counters) do
  if counter.error then error(counter.error.message, 0) end
  for word, count in pairs(counter.result) do
    if not sums[word] then words[#words + 1] = word end
    sums[word] = (sums[word] or 0) + count
  end
end
table.sort(words, function(a, b)
  if sums[a] ~= sums[b] then return sums[a] > sums[b] end
  return a < b
end)
for i = 1, 3 do print(sums[words[i]], words[i]) end

for _, path in ipairs(paths) do os.remove(path) end
