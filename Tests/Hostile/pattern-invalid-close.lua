-- expect: ok
return ("x"):find("x)")
