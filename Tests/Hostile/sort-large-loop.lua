-- expect: timeout
while true do local t = {} for i = 1, 1000 do t[i] = -i end table.sort(t) end
