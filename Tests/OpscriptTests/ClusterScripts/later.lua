local later = { factor = 10 }

function later.word() return "a module that only a body needs" end

function later.fail() error "in a module" end

return later
