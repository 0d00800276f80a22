-- expect: error: attempt to yield
coroutine.yield()
