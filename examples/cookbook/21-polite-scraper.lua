#!/usr/bin/env opscript
-- Fetches pages politely: a few at once, a limited number a second, with retries when the server is busy. The server is a stub that answers
-- from a table; put an HTTP client into `fetch`.

local Operation = opscript.Operation
local queue = opscript.OperationQueue.new { name = "web", maxConcurrentOperationCount = 4, rateLimit = { count = 200, seconds = 1, burst = 5 } }

local site = {
  ["/"] = { links = { "/a", "/b", "/gone" } },
  ["/a"] = { links = { "/b" }, busy = 2 },                   -- answers at the third attempt
  ["/b"] = { links = {} },
}

local function fetch(path, attempt)
  local page = site[path]
  if not page then error { status = 404 } end
  if attempt <= (page.busy or 0) then error { status = 503 } end
  return page.links
end

local pages = {}
local function visit(path)
  if pages[path] then return end
  local op = Operation.new {
    name = path, timeout = 10, arguments = { path },
    main = function(op, path) return fetch(path, op.attempt) end,
    retry = { attempts = 5, delay = 0.01, backoff = 2, jitter = true, when = function(e) return e.kind == "timeout" or e.value.status == 503 end },
  }
  op.completionBlock = function(op)                          -- runs here, so it may use `pages`
    for _, link in ipairs(op.result or {}) do visit(link) end
  end
  pages[path] = op
  queue:addOperation(op)
end

visit "/"
queue:waitUntilAllOperationsAreFinished()

local paths = {}
for path in pairs(pages) do paths[#paths + 1] = path end
table.sort(paths)
for _, path in ipairs(paths) do
  local op = pages[path]
  print(path, op.error and "status " .. op.error.value.status or #op.result .. " links", "attempts: " .. op.attempt)
end
