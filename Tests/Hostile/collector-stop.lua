-- expect: error: does not allow collectgarbage 'stop'
collectgarbage("stop")
