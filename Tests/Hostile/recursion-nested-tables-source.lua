-- expect: error
assert(load("return " .. ("{"):rep(1000) .. ("}"):rep(1000)))
