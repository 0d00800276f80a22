-- expect: error: string slice too long
return ("x"):rep(1 << 21):byte(1, -1)
