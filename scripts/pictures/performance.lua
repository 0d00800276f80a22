-- Prints a chart of the tables in docs/performance.md.
--
--   performance.lua PERFORMANCE.md
--
-- The same tables give the same picture.

package.path = (arg[0]:match "^(.*/)" or "./") .. "?.lua;" .. package.path
local svg = require "svg"

local page = assert(arg[1], "usage: performance.lua PERFORMANCE.md")

-- Returns the cells of a row of a table.
local function cells(line)
  local cells = {}
  for cell in line:sub(2):gmatch "%s*(.-)%s*|" do cells[#cells + 1] = cell end
  return cells
end

-- Reads the tables whose first heading is empty and whose second is one of our names. The first word of a row is its key.
local rows, heading = {}, nil
for line in io.lines(page) do
  if not line:find "^|" then
    heading = nil
  else
    local row = cells(line)
    if not heading then
      heading = row
    elseif heading[1] == "" and (heading[2] == "OpEngine" or heading[2] == "opscript") then
      local values, name = {}, row[1]:match "^%w+"           -- nil in the line below the heading
      for i = 2, #row do
        local value = row[i]:match "^([%d,.]+)"
        if value then values[#values + 1] = { name = heading[i]:gsub("`", ""), value = tonumber((value:gsub(",", ""))), isOurs = i == 2 } end
      end
      if name then rows[name] = rows[name] or values end
    end
  end
end

local panels = {
  { "W1", "Create, add and run an empty operation (Swift)" },
  { "W4", "The same in layers, each with three dependencies (Swift)" },
  { "L1", "A script's operation: a closure, a handle, a completion block (Lua)" },
}

local left, right, rowHeight, panelHeight = 120, 90, 20, 46
local height = 16
for _, panel in ipairs(panels) do
  panel.values = assert(rows[panel[1]], "no row " .. panel[1])
  table.sort(panel.values, function(a, b)
    if a.value ~= b.value then return a.value < b.value end
    return a.name < b.name
  end)
  height = height + panelHeight + rowHeight * #panel.values
end

local width = 760
local picture = svg.new(width, height + 20, "Nanoseconds of an operation, of opscript and of others")
local y = 16
for _, panel in ipairs(panels) do
  picture:text(16, y + 14, panel[2], { ["font-weight"] = "600", ["font-size"] = "13" })
  y = y + 26
  local most = panel.values[#panel.values].value
  for _, entry in ipairs(panel.values) do
    local length = math.max(2, (width - left - right) * entry.value / most)
    local fill = entry.isOurs and "#0969da" or entry.name == "C" and "#d0d7de" or "#8c959f"
    picture:text(left - 8, y + 14, entry.name, { ["text-anchor"] = "end", ["font-weight"] = entry.isOurs and "600" or "400" })
    picture:rectangle(left, y + 3, length, rowHeight - 6, { rx = 2, fill = fill })
    picture:text(left + length + 6, y + 14, ("%d ns"):format(entry.value), {})
    y = y + rowHeight
  end
  y = y + panelHeight - 26
end
picture:text(16, y + 4, "Medians, shorter is better. C is a pool written for this comparison, without cancelling, observers and handles.",
  { fill = "#59636e", ["font-size"] = "11" })
picture:write(io.stdout)
