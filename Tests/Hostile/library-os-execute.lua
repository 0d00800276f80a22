-- expect: error: attempt to call a nil value
return os.execute("true")
