-- expect: error: attempt to call a nil value
warn("@on")
