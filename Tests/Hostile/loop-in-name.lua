-- expect: error: attempt to index
return setmetatable({}, { __name = ("x"):rep(100) }).x.y
