-- expect: error: no value
return (("%d"):rep(1000)):format(1)
