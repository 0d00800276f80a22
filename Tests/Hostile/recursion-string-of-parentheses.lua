-- expect: error
assert(load("return " .. ("("):rep(1000) .. "1" .. (")"):rep(1000)))
