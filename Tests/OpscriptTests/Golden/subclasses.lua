-- Classes of operations, derived from Operation and from each other.
local Operation, OperationQueue = opscript.Operation, opscript.OperationQueue
local queue = OperationQueue.new "queue"

local Shape = Operation:subclass "Shape"
Shape.unit = "cm"
function Shape:init(name) self.name = name end
function Shape:area() return 0 end
function Shape:main() return self:describe() end
function Shape:describe() return self.name .. ": " .. self:area() .. " " .. self.unit .. "2" end

local Square = Shape:subclass "Square"
function Square:init(side)
  Shape.init(self, "square")
  self.side = side
end
function Square:area() return self.side ^ 2 end

local Cube = Square:subclass "Cube"
Cube.unit = "mm"
function Cube:area() return 6 * Square.area(self) end
function Cube:main() return Square.main(self), self:isKindOf(Square), self:isKindOf(Cube), Operation.current == self end

local shapes = { Shape.new "point", Square.new(2), Cube.new(3) }
queue:addOperations(shapes, true)
for _, shape in ipairs(shapes) do print(shape, shape.result, shape:describe() == shape.result) end
print(table.unpack(shapes[3].results, 2))
print(Shape, Cube, shapes[2]:isKindOf(Shape), shapes[2]:isKindOf(Cube), shapes[1]:isKindOf(Operation))

-- A value that is stored in an operation takes precedence over its class.
local inches = Square.new(1)
inches.unit = "in"
inches:start()
print(inches.result, Square.unit)

-- An asynchronous class.
local Request = Operation:subclass "Request"
function Request:init(path) self.path = path end
function Request:start()
  local answerer = Operation.new(function(op, request) request:finish("answer to " .. request.path) end, self)
  OperationQueue.new():addOperation(answerer)
end
local request = Request.new "/index"
print(request.isAsynchronous)
queue:addOperation(request)
request:waitUntilFinished()
print(request, request.result)

-- A class with its own `cancel`.
local Careful = Operation:subclass "Careful"
function Careful:cancel()
  print("cancelling", self.name)
  Operation.cancel(self)
end
local held = OperationQueue.new { isSuspended = true }
for _, name in ipairs { "a", "b" } do
  local careful = Careful.new()
  careful.name = name
  held:addOperation(careful)
end
held:cancelAllOperations()
held.isSuspended = false
held:waitUntilAllOperationsAreFinished()

-- Wrong use.
local function refused(f) print((select(2, pcall(f)))) end
refused(function() Operation:subclass() end)
refused(function() Operation.subclass "Shape" end)
refused(function() Shape:new "point" end)
refused(function() Shape.new("point"):new() end)
refused(function() function Shape:isReady() return true end end)
refused(function() function Shape:waitUntilFinished() end end)
refused(function() function Shape:mian() end end)
refused(function() Shape.new("point").isExcuting = true end)
refused(function() opscript.BlockOperation:subclass "Blocks" end)
