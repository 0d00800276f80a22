-- expect: timeout
for i = math.mininteger, math.maxinteger do end
