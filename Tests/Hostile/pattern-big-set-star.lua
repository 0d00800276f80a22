-- expect: timeout
return ("a"):rep(100000):find("[" .. ("b"):rep(100000) .. "a]*c")
