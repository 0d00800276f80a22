-- expect: error: string slice too long
return utf8.codepoint(("x"):rep(1 << 21), 1, -1)
