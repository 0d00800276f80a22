local later = require "later"

return { area = function(n) return n * n * later.factor end }
