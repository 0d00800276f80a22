-- expect: timeout
table.move({}, 1, 1 << 60, 2)
