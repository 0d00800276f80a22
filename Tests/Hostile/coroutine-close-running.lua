-- expect: error: cannot close a running coroutine
coroutine.close(coroutine.running())
