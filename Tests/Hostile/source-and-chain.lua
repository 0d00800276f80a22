-- expect: timeout
load("local a; x = a" .. (" and a"):rep(1000000))
