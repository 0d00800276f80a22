-- expect: ok
return math.maxinteger + 1 == math.mininteger and math.mininteger // -1 == math.mininteger
