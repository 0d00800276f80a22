-- expect: memory|error
local t = {} for i = 1, 1e5 do t = setmetatable({}, { __call = t }) end t()
