-- expect: error
table.sort({ 3, 2, 1 }, coroutine.wrap(function(a, b) return a < b end))
