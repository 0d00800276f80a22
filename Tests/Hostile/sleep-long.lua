-- expect: timeout
opscript.sleep(1e9)
