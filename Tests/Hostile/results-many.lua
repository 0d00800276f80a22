-- expect: error|memory
return table.unpack({}, 1, 500000)
