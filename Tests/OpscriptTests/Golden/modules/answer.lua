local answer = { value = 42 }
answer.__index = answer

function answer.new(n) return setmetatable({ n = n }, answer) end

function answer:double() return 2 * self.n end

return answer
