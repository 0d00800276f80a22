-- expect: timeout
return ("a"):rep(35):find(("a?"):rep(35) .. "b")
