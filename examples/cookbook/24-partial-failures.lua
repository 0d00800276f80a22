#!/usr/bin/env opscript
-- Asks several servers at once, uses the answers that arrive, and names the missing ones. A server that has more pages adds them to the group.

local queue = opscript.OperationQueue.new()

local servers = {                                              -- stands for servers, which may be slow or fail
  north = { pages = 2 }, east = { pages = 1 }, south = { fails = "connection refused" }, west = { pages = 3 },
}

local function ask(op, name, server, page)
  if server.fails then error(server.fails, 0) end
  if page < server.pages then op.group:addOperation(ask, name, server, page + 1) end
  return { name = name, page = page }
end

local group = opscript.GroupOperation.new { name = "servers", timeout = 10, maxConcurrentOperationCount = 2 }
for name, server in pairs(servers) do group:addOperation(ask, name, server, 1) end
queue:addOperation(group)
group:waitUntilFinished()                                      -- also for the pages that were added during the wait

local pages, missing = {}, 0
for i, op in ipairs(group.operations) do
  local page = group.results[i]
  if op.error then missing = missing + 1 end
  if page then pages[#pages + 1] = page.name .. " " .. page.page end
end
table.sort(pages)
print(table.concat(pages, ", "))
print(missing .. " of " .. #group.operations .. " are missing, the first because: " .. group.error.message:match "failed: (.*)")
