-- Conversions that 11-share-a-module.lua uses in each worker.
local units = { used = 0 }

function units.celsius(fahrenheit)
  units.used = units.used + 1                                -- each state has its own table, so each worker counts for itself
  return (fahrenheit - 32) * 5 / 9
end

return units
