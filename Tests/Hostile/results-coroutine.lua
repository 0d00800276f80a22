-- expect: error: cannot send
return coroutine.create(print)
