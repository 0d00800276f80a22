-- expect: ok
for i = 1, 200 do
  local a, b = opscript.channel(), opscript.channel()
  a:send(b, a)
  b:send(a)
end
return true
