-- expect: timeout
repeat until false
