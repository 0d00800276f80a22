-- expect: error: too many results to unpack
table.unpack({}, math.mininteger, math.maxinteger)
