-- expect: error: destination wrap around
table.move({}, 1, 2, math.maxinteger)
