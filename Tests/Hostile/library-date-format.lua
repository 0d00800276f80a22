-- expect: error: format longer than 1000 bytes
return os.date(("%c"):rep(10000))
