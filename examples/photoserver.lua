-- A small HTTP server for photos.lua. It makes photos in a directory and serves them to clients on this machine.
--
--   photoserver.lua DIRECTORY SIZE
--
-- Prints its port, and runs until it receives SIGTERM.

local socket = require "socket"

local directory, size = arg[1], assert(arg[2], "usage: photoserver.lua DIRECTORY SIZE")
assert(opscript.fs.mkdir(directory))
local queue = opscript.OperationQueue.new()
for i = 1, 20 do
  queue:addOperation(function()
    opscript.run { "convert", "-size", size, ("gradient:hsl(%d,90%%,40%%)-white"):format(18 * i), ("%s/%d.png"):format(directory, i) }
  end)
end
queue:waitUntilAllOperationsAreFinished()
local server = assert(socket.bind("127.0.0.1", 0))
server:settimeout(0.1) -- so that it soon notices SIGTERM
print((select(2, server:getsockname())))
io.stdout:flush()

local function answer(client)
  client:settimeout(10)
  local request = client:receive()
  repeat local line = client:receive() until not line or line == ""
  local name = request and request:match "^GET /([%w_.-]+) "
  local file = name and io.open(directory .. "/" .. name, "rb")
  if not file then return client:send "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n" end
  local bytes = file:read "a"
  file:close()
  client:send("HTTP/1.0 200 OK\r\nContent-Length: " .. #bytes .. "\r\n\r\n" .. bytes)
end

while true do
  local client = server:accept()
  if client then
    answer(client)
    client:close()
  end
end
