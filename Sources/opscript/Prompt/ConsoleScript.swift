import LuaBindings

/// The Lua part of the prompt: it shows values and completes names. Run once, when a prompt begins.
enum ConsoleScript {
    /// A script that returns a table with the functions `bind`, `format`, `complete`, `evaluate` and `takeOutput`.
    static var source: String {
        let classes = ["Operation", "BlockOperation", "InvocationOperation", "GroupOperation", "OperationQueue"]
        let members = classes.map { name in
            let names = Runtime.memberNames(ofClass: name).map { "\"\($0)\"" }.joined(separator: ",")
            return "\(name)={\(names)}"
        }
        return "local members = {\(members.joined(separator: ","))}\n" + lua
    }

    private static let lua = #"""
        local globals, module = _G, opscript
        local getmetatable, rawget, rawlen, next, type = debug.getmetatable, rawget, rawlen, next, type
        local tostring, pcall, ipairs, error, load, rawset, setmetatable = tostring, pcall, ipairs, error, load, rawset, setmetatable
        local string, table, math = { format = string.format, gsub = string.gsub, rep = string.rep, match = string.match,
          sub = string.sub, byte = string.byte, find = string.find, gmatch = string.gmatch }, { concat = table.concat, sort = table.sort, pack = table.pack,
          unpack = table.unpack }, { type = math.type }
        local pairs, getupvalue, upvaluejoin = pairs, debug.getupvalue, debug.upvaluejoin
        local DEPTH, ELEMENTS, ALL, BYTES, WIDTH = 4, 50, 500, 300, 76

        local keywords = {}
        for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true
          until while]]):gmatch "%a+" do keywords[word] = true end

        -- Local variables that stay for the next lines -----------------------------------------------------------------

        -- A function with one upvalue, for each name. Lines share the upvalue, so a function takes it along to another state.
        local cells = {}

        local function cell(value) return function() return value end end

        local opening = { ["do"] = 1, ["function"] = 1, ["if"] = 1, ["repeat"] = 1, ["end"] = -1, ["until"] = -1 }
        -- Tokens that are no words, in the order in which they are tried.
        local tokens = { "^%s+", "^%-%-%[(=*)%[.-%]%1%]", "^%-%-[^\n]*", "^%[(=*)%[.-%]%1%]", "^%d[%w%.]*", "^%p" }

        local function afterString(source, at)
          local quote = string.sub(source, at, at)
          repeat
            at = at + 1
            local c = string.sub(source, at, at)
            if c == "\\" then at = at + 1 end
          until c == quote or c == ""
          return at + 1
        end

        -- Returns the words of `source`, the names that it declares as local variables outside of blocks, and `source` with assignments for these
        -- declarations. A variable to be closed stays a local one.
        local function scan(source)
          local words, declared, parts, depth, at, kept = {}, {}, {}, 0, 1, 1
          while at <= #source do
            local word = string.match(source, "^[%a_][%w_]*", at)
            if word == "local" and depth == 0 then
              local after = string.match(source, "^%s*()", at + 5)
              local list, last = string.match(source, "^([%a_][%w_%s,<>]*)()", after)
              local name = list and string.match(list, "^function%s+([%a_][%w_]*)")
              if name then
                declared[name] = true
                parts[#parts + 1] = string.sub(source, kept, at - 1)
                kept = after
              elseif list and not string.find(list, "<%s*close%s*>") then
                -- Without an assignment, the list ends before the word that follows a name.
                local isAssigned = string.sub(source, last, last) == "="
                local names, rest = {}, 1
                repeat
                  local found, next, comma
                  found, next = string.match(list, "^%s*([%a_][%w_]*)%s*()", rest)
                  if not found then break end
                  names[#names + 1] = found
                  next = string.match(list, "^<[%s%w]*>%s*()", next) or next
                  comma, rest = string.match(list, "^(,?)()", next)
                until comma == ""
                for _, found in ipairs(names) do
                  declared[found], words[found] = true, true
                end
                parts[#parts + 1] = string.sub(source, kept, at - 1) .. string.rep(" ", after - at) .. table.concat(names, ", ")
                if not (isAssigned and string.find(list, "^%s*$", rest)) then parts[#parts + 1] = " = nil; " end
                kept = after + rest - 1
                at = kept
                goto continue
              end
              at = after
            elseif word then
              words[word] = true
              depth = depth + (opening[word] or 0)
              at = at + #word
            elseif string.find(source, "^[\"']", at) then
              at = afterString(source, at)
            else
              local next
              for _, token in ipairs(tokens) do
                local _, last = string.find(source, token, at)
                if last then next = last + 1 break end
              end
              at = next or at + 1
            end
            ::continue::
          end
          parts[#parts + 1] = string.sub(source, kept)
          return words, declared, table.concat(parts)
        end

        -- Returns the function of `source` that sees the variables of earlier lines: `chunk` itself if it uses none.
        local function bind(chunk, source)
          local words, declared, code = scan(source)
          local names = {}
          for name in next, words do
            if cells[name] or declared[name] then names[#names + 1] = name end
          end
          for name in next, declared do
            if not words[name] then names[#names + 1] = name end
          end
          if #names == 0 then return chunk end
          local lead = string.match(code, "^\n*")
          local head = lead .. "local " .. table.concat(names, ",") .. " return function(...) "
          code = string.sub(code, #lead + 1)
          local make = load(head .. "return " .. code .. "\nend", "=stdin", "t") or load(head .. code .. "\nend", "=stdin", "t")
          if not make then return chunk end
          local bound = make()
          for i = 1, 255 do
            local name = getupvalue(bound, i)
            if not name then break end
            if declared[name] then
              -- The declaration may read an earlier variable of the same name.
              local value = rawget(globals, name)
              if cells[name] then value = cells[name]() end
              cells[name] = cell(value)
            end
            if cells[name] then upvaluejoin(bound, i, cells[name], 1) end
          end
          return bound
        end

        -- Values ------------------------------------------------------------------------------------------------------

        local escapes = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }

        local function quoted(text)
          local rest = #text - BYTES
          if rest > 0 then text = string.sub(text, 1, BYTES) end
          text = string.gsub(text, '[%c"\\]', function(c) return escapes[c] or string.format("\\x%02X", string.byte(c)) end)
          return '"' .. text .. '"' .. (rest > 0 and string.format(" … %d more bytes", rest) or "")
        end

        local function hasOwnText(value)
          local meta = getmetatable(value)
          return type(meta) == "table" and (rawget(meta, "__tostring") ~= nil or type(rawget(meta, "__name")) == "string")
        end

        local function text(value)
          local ok, words = pcall(tostring, value)
          return ok and words or "<" .. type(value) .. " whose __tostring fails>"
        end

        -- The name of the class of an operation or a queue, or nil.
        local function classOf(value)
          local meta = type(value) == "userdata" and getmetatable(value)
          local name = type(meta) == "table" and rawget(meta, "__name")
          return members[name] and name or nil
        end

        local function isFrozen(value)
          local meta = type(value) == "userdata" and getmetatable(value)
          return type(meta) == "table" and rawget(meta, "__name") == "frozen table"
        end

        local function copyOf(frozen)
          local copy = {}
          for key, element in pairs(frozen) do copy[key] = element end
          return copy
        end

        local ranks = { number = 1, string = 2, boolean = 3 }

        local function precedes(a, b)
          local x, y = ranks[type(a)] or 4, ranks[type(b)] or 4
          if x ~= y then return x < y end
          if x <= 2 then return a < b end
          return text(a) < text(b)
        end

        local literal

        local function object(value)
          local words, class = text(value), classOf(value)
          local ok, more = pcall(function()
            if class == "OperationQueue" then return value.isSuspended and ", suspended" or "" end
            if not value.isFinished then return "" end
            local failure, results = value.error, value.results
            if failure ~= nil then return " error: " .. text(failure) end
            if not results or results.n == 0 then return "" end
            local shown = {}
            for i = 1, results.n do shown[i] = literal(results[i], 2, {}, { left = 50 }, "") end
            return " → " .. table.concat(shown, ", ")
          end)
          return words .. (ok and more or "")
        end

        local function fields(value, depth, path, budget, indent)
          -- The result of a failed program shows its status to code that reads it.
          if getmetatable(value) == false then local _ = value.status end
          local parts, length = {}, rawlen(value)
          local function add(key, element)
            budget.left = budget.left - 1
            parts[#parts + 1] = (key and key .. " = " or "") .. literal(element, depth + 1, path, budget, indent .. "  ")
          end
          local keys, omitted = {}, 0
          for i = 1, length do
            if #parts < ELEMENTS and budget.left > 0 then add(nil, rawget(value, i)) else omitted = omitted + 1 end
          end
          for key in next, value do
            if not (math.type(key) == "integer" and key >= 1 and key <= length) then keys[#keys + 1] = key end
          end
          table.sort(keys, precedes)
          for _, key in ipairs(keys) do
            if #parts < ELEMENTS and budget.left > 0 then
              local isName = type(key) == "string" and string.find(key, "^[%a_][%w_]*$") and not keywords[key]
              add(isName and key or "[" .. literal(key, DEPTH, path, budget, indent) .. "]", rawget(value, key))
            else
              omitted = omitted + 1
            end
          end
          if omitted > 0 then parts[#parts + 1] = string.format("… %d more", omitted) end
          return parts
        end

        function literal(value, depth, path, budget, indent)
          local kind = type(value)
          if kind == "string" then return quoted(value) end
          if classOf(value) then return depth == 0 and object(value) or text(value) end
          if isFrozen(value) then return "frozen " .. literal(copyOf(value), depth, path, budget, indent) end
          if kind ~= "table" or hasOwnText(value) then return text(value) end
          if path[value] then return "<cycle>" end
          if next(value) == nil then return "{}" end
          if depth >= DEPTH then return "{…}" end
          path[value] = true
          local parts = fields(value, depth, path, budget, indent)
          path[value] = nil
          local line = "{ " .. table.concat(parts, ", ") .. " }"
          if #indent + #line <= WIDTH and not string.find(line, "\n", 1, true) then return line end
          return "{\n" .. indent .. "  " .. table.concat(parts, ",\n" .. indent .. "  ") .. "\n" .. indent .. "}"
        end

        local function format(...)
          local values = table.pack(...)
          cells._ = cell(values[1])
          for i = 1, values.n do
            local value = values[i]
            if classOf(value) then
              values[i] = object(value)
            elseif isFrozen(value) or type(value) == "table" and not hasOwnText(value) then
              values[i] = literal(value, 0, {}, { left = ALL }, "")
            end
          end
          return table.unpack(values, 1, values.n)
        end

        -- Completion: calls no function of scripts ----------------------------------------------------------------------

        -- Returns the text after the quote that `line` leaves open, or nil, and whether the line ends in a comment.
        local function openString(line)
          local quote, start
          local i = 1
          while i <= #line do
            local c = string.sub(line, i, i)
            if quote then
              if c == "\\" then i = i + 1 elseif c == quote then quote = nil end
            elseif c == '"' or c == "'" then
              quote, start = c, i + 1
            elseif string.sub(line, i, i + 1) == "--" then
              return nil, true
            end
            i = i + 1
          end
          return quote and string.sub(line, start) or nil
        end

        -- Calls `visit` with each table in which a field of `value` may be found, until it returns something.
        local function search(value, visit)
          for _ = 1, 20 do
            if type(value) == "table" then
              local found = visit(value)
              if found ~= nil then return found end
            end
            local class = classOf(value)
            if class then return visit(module[class]) end
            local meta = getmetatable(value)
            value = type(meta) == "table" and rawget(meta, "__index")
            if type(value) ~= "table" then return nil end
          end
        end

        local function complete(line)
          local inString, isComment = openString(line)
          if inString then return "file", inString end
          local chain = string.match(line, "[%a_][%w_%.:]*$") or ""
          chain = string.match(chain, "%.%.(.*)$") or chain
          local before = string.sub(line, -#chain - 1, -#chain - 1)
          if isComment or (chain ~= line and (before == "." and string.sub(line, -#chain - 2, -#chain - 2) ~= "." or before == ":"
            or before == ")" or before == "]")) then return "name", "", {} end
          local value, mark, isGlobal = globals, nil, true
          local function get(place, name)
            if place == globals and cells[name] then return cells[name]() end
            return rawget(place, name)
          end
          local prefix = string.match(chain, "[%w_]*$")
          for name, separator in string.gmatch(string.sub(chain, 1, #chain - #prefix), "([%w_]*)([%.:])") do
            value, mark, isGlobal = search(value, function(place) return get(place, name) end), separator, false
            if value == nil then return "name", prefix, {} end
          end
          local seen, found = {}, {}
          local function offer(name, item)
            if type(name) == "string" and string.find(name, "^[%a_][%w_]*$") and string.sub(name, 1, #prefix) == prefix
              and not seen[name] and (mark ~= ":" or type(item) == "function") then
              seen[name] = true
              found[#found + 1] = name
            end
          end
          search(value, function(place) for name, item in next, place do offer(name, item) end end)
          local class = classOf(value)
          if class then for _, name in ipairs(members[class]) do offer(name, rawget(module[class], name)) end end
          if isGlobal then
            for word in next, keywords do offer(word) end
            for name in next, cells do offer(name) end
          end
          table.sort(found)
          return "name", prefix, found
        end

        -- Evaluation for an attached prompt ---------------------------------------------------------------------------

        local output = {}

        local function takeOutput()
          local taken = table.concat(output)
          output = {}
          return taken
        end

        -- Compiles and runs `source`, whose `print` writes to the prompt that has sent it. Returns "done" or, if the source is incomplete,
        -- "more", and what was printed.
        local function evaluate(source)
          local chunk, message = load("return " .. source, "=stdin", "t")
          if not chunk then chunk, message = load(source, "=stdin", "t") end
          if not chunk then
            if string.find(message, "<eof>'?$") then return "more", "" end
            error(message, 0)
          end
          output, chunk = {}, bind(chunk, source)
          local before = rawget(globals, "print")
          local function say(...)
            local words = table.pack(...)
            for i = 1, words.n do words[i] = tostring(words[i]) end
            output[#output + 1] = table.concat(words, "\t") .. "\n"
          end
          local restore <close> = setmetatable({}, { __close = function()
            if rawget(globals, "print") == say then rawset(globals, "print", before) end
          end })
          rawset(globals, "print", say)
          local values = table.pack(chunk())
          if values.n > 0 then say(format(table.unpack(values, 1, values.n))) end
          return "done", takeOutput()
        end

        return { bind = bind, format = format, complete = complete, evaluate = evaluate, takeOutput = takeOutput }
        """#
}
