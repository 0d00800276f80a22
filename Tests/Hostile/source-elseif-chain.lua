-- expect: timeout
load("local a; if a then x = 1 " .. ("elseif a then x = 1 "):rep(300000) .. "end")
