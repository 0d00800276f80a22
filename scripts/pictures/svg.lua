-- Writes SVG, for the scripts beside this one.
local svg = {}
svg.__index = svg

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local function escape(text) return (tostring(text):gsub('[&<>"]', entities)) end

-- Coordinates have one decimal digit, so that the same picture is the same text everywhere.
local function number(value)
  local text = ("%.1f"):format(value):gsub("%.0$", "")
  return text == "-0" and "0" or text
end

local function attributes(t)
  local names, parts = {}, {}
  for name in pairs(t or {}) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local value = t[name]
    parts[i] = (' %s="%s"'):format(name, escape(type(value) == "number" and number(value) or value))
  end
  return table.concat(parts)
end

-- A picture with a size in pixels and a white background. The title describes it to readers who cannot see it.
function svg.new(width, height, title)
  local self = setmetatable({ width = width, height = height, title = title, lines = {} }, svg)
  self:rectangle(0.5, 0.5, width - 1, height - 1, { rx = 6, fill = "#ffffff", stroke = "#d0d7de" })
  return self
end

function svg:add(line) self.lines[#self.lines + 1] = "  " .. line end

function svg:rectangle(x, y, width, height, more)
  self:add(('<rect x="%s" y="%s" width="%s" height="%s"%s/>'):format(number(x), number(y), number(width), number(height), attributes(more)))
end

function svg:line(x1, y1, x2, y2, more)
  self:add(('<line x1="%s" y1="%s" x2="%s" y2="%s"%s/>'):format(number(x1), number(y1), number(x2), number(y2), attributes(more)))
end

-- Draws a curve between two points that leaves and arrives horizontally.
function svg:curve(x1, y1, x2, y2, more)
  local bend = math.max(12, (x2 - x1) / 2)
  local path = ("M%s %s C%s %s %s %s %s %s"):format(
    number(x1), number(y1), number(x1 + bend), number(y1), number(x2 - bend), number(y2), number(x2), number(y2))
  self:add(('<path d="%s" fill="none"%s/>'):format(path, attributes(more)))
end

function svg:text(x, y, text, more)
  self:add(('<text x="%s" y="%s"%s>%s</text>'):format(number(x), number(y), attributes(more), escape(text)))
end

function svg:write(file)
  file:write(
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '):format(
      self.width, self.height, self.width, self.height),
    'font-family="system-ui, sans-serif" font-size="12" fill="#1f2328">\n',
    "  <title>", escape(self.title), "</title>\n", table.concat(self.lines, "\n"), "\n</svg>\n")
end

return svg
