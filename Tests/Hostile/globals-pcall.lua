-- expect: ok
pcall, error, load = nil return pcall == nil
