-- expect: timeout|memory
coroutine.wrap(function()
  local function f()
    pcall(f)
    while true do pcall(f) end
  end
  f()
end)()
