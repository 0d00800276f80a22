-- expect: error: invalid format (too long)
return ("%" .. ("0"):rep(100) .. "d"):format(1)
