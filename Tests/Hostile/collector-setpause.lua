-- expect: error: does not allow collectgarbage 'setpause'
collectgarbage("setpause", 1000000)
