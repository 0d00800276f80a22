-- expect: error: bytes of output
print(("x"):rep(1000000))
