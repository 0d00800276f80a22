-- expect: error: interval is empty
return math.random(2, 1)
