-- expect: timeout
return ("a"):rep(30000):gsub((".*"):rep(30) .. "b", "x")
