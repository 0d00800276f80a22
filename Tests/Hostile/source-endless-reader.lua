-- expect: timeout|memory
load(function() return " " end)
