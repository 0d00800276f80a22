-- expect: error: resulting string too large
return ("xx"):rep(math.maxinteger)
