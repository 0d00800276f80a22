-- expect: error: pattern too complex
return ("x"):rep(300):find(("(x"):rep(30) .. ("x?"):rep(300))
