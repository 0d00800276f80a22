-- expect: error
xpcall(error, function() error("again") end) error(nil)
