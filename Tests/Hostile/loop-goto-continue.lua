-- expect: timeout
local i = 0 ::again:: i = i + 1 do goto again end
