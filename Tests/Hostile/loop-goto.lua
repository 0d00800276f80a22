-- expect: timeout
::top:: goto top
