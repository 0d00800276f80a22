-- expect: timeout
setmetatable({}, { __call = function(self) while true do self = self end end })()
