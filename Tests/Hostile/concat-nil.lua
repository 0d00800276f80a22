-- expect: error: invalid value
table.concat({}, "", 1, 1 << 60)
