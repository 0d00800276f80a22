-- Prints a recording of a terminal as an animated picture.
--
--   progress.lua SAMPLES
--
-- SAMPLES is a directory with the screen at each moment: files named by the time in milliseconds, with colours as escape sequences (`tmux
-- capture-pane -e`). A reader who wants no motion sees the last one.

package.path = (arg[0]:match "^(.*/)" or "./") .. "?.lua;" .. package.path
local svg = require "svg"

local directory = assert(arg[1], "usage: progress.lua SAMPLES")
local times = {}
for name in opscript.process({ "ls", directory }):wait().stdout:gmatch "%d+" do times[#times + 1] = tonumber(name) end
table.sort(times)
assert(#times > 1, "there are no samples in " .. directory)

-- The samples: a list of rows each, without the empty ones at the end ---------------------------------------------------

local frames, height = {}, 1
for i, time in ipairs(times) do
  local rows = {}
  for line in io.lines(directory .. "/" .. time) do rows[#rows + 1] = line end
  while rows[#rows] == "" do rows[#rows] = nil end
  frames[i] = rows
  height = math.max(height, #rows)
end

-- The picture ---------------------------------------------------------------------------------------------------------

local rest = 3000 -- milliseconds that the last sample stays
local total = times[#times] - times[1] + rest
local rowHeight, left, top = 17, 14, 12
local picture = svg.new(760, 2 * top + rowHeight * height, "A recording of a terminal: how far the operations of a pipeline have come")
local colours = { ["31"] = "#cf222e", ["32"] = "#1a7f37", ["1"] = "#1f2328" }

local function percent(time) return ("%.2f%%"):format(100 * (time - times[1]) / total) end

-- Splits a row into pieces of one colour each.
local function pieces(row)
  local result, colour = {}, nil
  for text, codes in (row .. "\27[m"):gmatch "(.-)\27%[([%d;]*)m" do
    if text ~= "" then result[#result + 1] = { text = text, colour = colour } end
    colour = colours[codes]
  end
  return result
end

-- Shows a text in a row from one sample to another; `stop` is nil for the end of the recording.
local styles, shown = {}, 0
local function show(y, row, start, stop)
  shown = shown + 1
  local class = "r" .. shown
  local first, last = percent(start), stop and percent(stop)
  styles[#styles + 1] = ("@keyframes %s{0%%{opacity:0}%s{opacity:1}%s}.%s{animation:%s %.2fs step-end infinite;opacity:%d}"):format(
    class, first, last and last .. "{opacity:0}" or "", class, class, total / 1000, stop and 0 or 1)
  picture:add(('<g class="%s">'):format(class))
  local column = 0
  for _, piece in ipairs(pieces(row)) do
    picture:text(left + column * 8.4, y, piece.text, { fill = piece.colour, ["xml:space"] = "preserve", textLength = utf8.len(piece.text) * 8.4 })
    column = column + utf8.len(piece.text)
  end
  picture:add "</g>"
end

for index = 1, height do
  local begin = 1
  for i = 2, #frames + 1 do
    local row, next = frames[begin][index] or "", frames[i] and (frames[i][index] or "")
    if row ~= next then
      if row ~= "" then show(top + rowHeight * index - 4, row, times[begin], times[i]) end
      begin = i
    end
  end
end
picture:add('<style>text{font:14px ui-monospace,monospace}' .. table.concat(styles)
  .. '@media(prefers-reduced-motion){g{animation:none!important}}</style>')
picture:write(io.stdout)
