-- expect: error: invalid pattern capture
return ("x"):find("x)")
