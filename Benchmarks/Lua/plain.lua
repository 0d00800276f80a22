-- Instruction count of the interpreter alone: calls, strings, tables.
local function fibonacci(n) return n < 2 and n or fibonacci(n - 1) + fibonacci(n - 2) end
local words = {}
for i = 1, 20000 do words[i] = ("%d:%s"):format(i, i % 7) end
table.sort(words)
local seen = {}
for _, word in ipairs(words) do seen[word:sub(-1)] = (seen[word:sub(-1)] or 0) + 1 end
assert(fibonacci(22) == 17711 and seen["0"] == 2857)
