-- expect: ok
_G.print = nil return print == nil
