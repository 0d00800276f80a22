-- expect: error: attempt to index a nil value
return io.open("/etc/passwd")
