-- A small HTTP server for photos.lua. It serves the files of a directory to clients on this machine.
--
--   photoserver.lua DIRECTORY
--
-- Prints its port, and runs until it receives SIGTERM.

local socket = require "socket"

local directory = assert(arg[1], "usage: photoserver.lua DIRECTORY")
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
