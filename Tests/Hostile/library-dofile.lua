-- expect: error: attempt to call a nil value
dofile("/etc/passwd")
