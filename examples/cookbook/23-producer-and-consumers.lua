#!/usr/bin/env opscript
-- A producer, three consumers and a collector at once, joined by channels. A full channel makes its sender wait, so memory stays small however
-- long the input is.

local queue = opscript.OperationQueue.new "stream"
local lines = opscript.channel { capacity = 16, name = "lines" }
local words = opscript.channel { capacity = 16, name = "words" }
local stopWords = opscript.freeze { the = true, of = true, to = true }  -- read by all states, copied by none

queue:addOperation(function()                                -- stands for reading a large file
  local lines <close> = lines                                -- closes the channel at the end, and after an error
  for i = 1, 1000 do lines:send("the name of line " .. i) end
end)

local consumers = {}
for i = 1, 3 do
  consumers[i] = queue:addOperation(function()
    for line in lines do
      for word in line:gmatch "%a+" do
        if not stopWords[word] then words:send(word) end
      end
    end
  end)
end
queue:addOperation(opscript.Operation.new { dependencies = consumers, main = function() words:close() end })

local counts, most = {}, 0
for word in words do
  counts[word] = (counts[word] or 0) + 1
  most = math.max(most, #lines, #words)
end
print("name", counts.name, "line", counts.line, "of", counts.of)
print("never more than 16 waited: " .. tostring(most <= 16))
