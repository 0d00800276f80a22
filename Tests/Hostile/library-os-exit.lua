-- expect: error: attempt to call a nil value
os.exit(0)
