-- expect: error: x
error("x", math.maxinteger)
