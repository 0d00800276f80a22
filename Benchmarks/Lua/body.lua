-- Instruction count of a typical body without allocations: calls, comparisons, arithmetic.
local function fibonacci(n) return n < 2 and n or fibonacci(n - 1) + fibonacci(n - 2) end
local numbers = {}
for i = 1, 1000 do numbers[i] = (i * 7919) % 1000 end
for round = 1, 10 do
  for i = 1, 1000 do numbers[i] = (numbers[i] * 31 + round) % 1009 end
  table.sort(numbers)
end
assert(fibonacci(22) == 17711)
