-- expect: error: does not allow collectgarbage 'generational'
collectgarbage("generational")
