-- expect: error: attempt to perform 'n%0'
return 1 % 0
