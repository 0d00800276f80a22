-- expect: error: too many results to unpack
table.unpack({}, 1, 1 << 40)
