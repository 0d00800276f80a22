-- expect: ok
local function again() opscript.after(0, again) end again() return true
