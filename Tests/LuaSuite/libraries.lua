-- Prints what random calls of library functions return or raise. Our own versions must print what lua5.4 prints.
math.randomseed(os.getenv "SEED" or 1)

local function pick(list) return list[math.random(#list)] end

local function pieces(list, most)
  local all = {}
  for i = 1, math.random(0, most) do all[i] = pick(list) end
  return table.concat(all)
end

local function show(...)
  local all = table.pack(...)
  for i = 1, all.n do
    local value = all[i]
    all[i] = type(value) == "string" and ("%q"):format(value) or type(value) == "table" and "{" .. show(table.unpack(value)) .. "}" or tostring(value)
  end
  -- Addresses differ from run to run.
  return (table.concat(all, " "):gsub("0x%x+", "ADDRESS"))
end

local items = {
  "a", "b", ".", "%a", "%d", "[ab]", "[^a]", "%b()", "%f[a]", "(", ")", "()", "%1", "^", "$", "*", "+", "-", "?", "%", "[", "]", "(a)", "(.-)",
  "%s", "[%a-]", "%z", "x", "%W", "[a-c]", "\0", "%D", "[]]", "[^]]", "(%w+)", "%%",
}
local characters = { "a", "b", "c", "(", ")", " ", "1", "x", "\0", "]", "é" }
local replacements = { "%0", "<%1>", "", "%%", "%2", "%", string.upper, { a = "A", b = false }, function() end, 7 }
local conversions = { "%d", "%5.2f", "%s", "%-8s|", "%q", "%x", "%c", "%i", "%g", "%a", "%5", "%", "%y", "%.3s", "%10.4d", "%+d", "%#x", "%.20s", "%e" }
local values = { 1, -7, 0, 2.5, 1e300, 65, "text", "", "a\0b", "10", math.mininteger, true, 0 / 0, 1 / 0 }

local calls = {
  function(s, p, at) return s:find(p, at) end,
  function(s, p, at) return s:find(p, at, true) end,
  function(s, p, at) return s:match(p, at) end,
  function(s, p) return s:gsub(p, pick(replacements), pick { nil, 0, 1, 100 }) end,
  function(s, p, at)
    local found = {}
    for a, b in s:gmatch(p, at) do found[#found + 1] = show(a, b) end
    return found
  end,
  function(s) return s:rep(math.random(-1, 5), pick { nil, ",", "" }) end,
  function() return pieces(conversions, 3):format(pick(values), pick(values), pick(values)) end,
  function(s, _, at) return table.concat({ s, at, 1.5, s }, pick { "", "-" }, math.random(0, 2), math.random(0, 5)) end,
  function(s, _, at)
    local list = { 1, s, 3, at }
    table.insert(list, math.random(0, 6), "new")
    return list
  end,
  function(s, _, at)
    local list = { 1, s, 3, at }
    local removed = table.remove(list, math.random(0, 6))
    return removed, list
  end,
  function(s, _, at) return table.move({ 1, s, 3, at }, math.random(-1, 5), math.random(-1, 5), math.random(-1, 5)) end,
  function(s, _, at) return table.unpack({ 1, s, 3, at }, math.random(-1, 5), math.random(-1, 6)) end,
  function()
    local list = {}
    for i = 1, math.random(0, 40) do list[i] = math.random(20) end
    table.sort(list, pick { nil, function(a, b) return a > b end })
    return list
  end,
}

for _ = 1, tonumber(os.getenv "COUNT" or 20000) do
  local s, p, at = pieces(characters, 12), pieces(items, 6), math.random(-4, 14)
  print(show(s, p, at, pcall(pick(calls), s, p, at)))
end
