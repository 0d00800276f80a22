extension ScriptedFunctions {
    /// `fetch`, in place of the host's function of this name, which makes the request and raises only for bad arguments.
    static let requests: StaticString = #"""
        local functions = ...
        local fetch = functions.fetch  -- the host's

        -- What `fetch` raises. Local to no function, because errors travel with their metatable.
        local FetchError = { __name = "FetchError", __tostring = function(problem) return problem.message end }

        -- The headers, by their names in lower case.
        local function parse(text)
          local headers = {}
          for name, value in gmatch(text, "\n([^:\r\n]+):[ \t]*([^\r\n]*)") do
            name, value = lower(name), match(value, "^.*[^ \t]") or ""
            headers[name] = headers[name] and headers[name] .. ", " .. value or value
          end
          return headers
        end

        -- Whether the response is no failure.
        local function isGood(response, ok)
          if type(ok) == "function" then return ok(response) end
          local status = response.status
          if status >= 200 and status < 300 or status == 304 then return true end
          for _, good in ipairs(type(ok) == "table" and ok or { ok }) do
            if tointeger(good) == status then return true end
          end
          return false
        end

        -- The first line of a body that is meant for people.
        local function firstLine(response)
          local kind = response.headers["content-type"] or ""
          if not response.body or find(kind, "html") or not (find(kind, "^text/") or find(kind, "json")) then return nil end
          local line = match(response.body, "%S[^\r\n]*")
          return line and #line > 200 and sub(line, 1, 200) .. "…" or line
        end

        -- `opscript.fetch(url, options)`.
        local function request(url, options)
          if options ~= nil and type(options) ~= "table" then
            error("bad argument #2 to 'fetch' (a table of options expected, got " .. type(options) .. ")", 3)
          end
          local given, ok = {}, nil
          for key, value in pairs(options or {}) do
            if key == "ok" then ok = value else given[key] = value end
          end
          for _, status in ipairs(type(ok) == "table" and ok or { ok }) do
            if type(status) ~= "function" and not tointeger(status) or type(status) == "function" and status ~= ok then
              error("bad argument #2 to 'fetch' (ok must be a status, an array of these or a function)", 3)
            end
          end
          local isDone, response = pcall(fetch, url, given)
          if not isDone then error(type(response) == "string" and (gsub(response, "'%?'", "'fetch'", 1)) or response, 3) end
          local text, problem, method, attempts = response.headers, response.problem, response.method, response.attempts
          response.headers, response.problem, response.method, response.attempts = parse(text), nil, nil, nil
          if not problem then
            if isGood(response, ok) then return response end
            local reason, line = match(text, "^%S+ %d+ +([^\r\n]+)"), firstLine(response)
            problem = response.status .. (reason and " " .. reason or "") .. (line and ": " .. line or "")
          end
          response.method = method
          response.message = method .. " " .. gsub(url, "^(%a+://)[^/?#]*@", "%1") .. ": " .. problem
            .. (attempts > 1 and " (after " .. attempts .. " attempts)" or "")
          error(setmetatable(response, FetchError), 0)
        end

        functions.fetch = request
        """#
}
