-- expect: error: may store at most
local op = ... for i = 1, 1000 do op["k" .. i] = i end
