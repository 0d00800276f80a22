-- expect: error: unfinished capture
return ("x"):find("(x")
