import LuaBindings
import TestSupport
import Testing

/// Metatables and classes keep their identity on the way to an operation and back.
@Suite("Identity of classes")
struct IdentityTests {
    /// Libraries of classes in the styles that are usual: the class is the metatable, or has the metatable in a field; methods are inherited, or copied;
    /// the library keeps lists of its classes and objects.
    private static let libraries = [
        "prototype": """
        local Object = {}
        Object.__index = Object
        function Object:extend()
          local class = {}
          for name, value in pairs(self) do if name:find '^__' then class[name] = value end end
          class.__index, class.super = class, self
          return setmetatable(class, self)
        end
        function Object:is_a(class)
          local metatable = getmetatable(self)
          while metatable do
            if rawequal(metatable, class) then return true end
            metatable = getmetatable(metatable)
          end
          return false
        end
        function Object:__call(...)
          local object = setmetatable({}, self)
          object:new(...)
          return object
        end
        return Object
        """,
        "dictionary": """
        local function declare(class, name, method)
          class.__dictionary[name] = method
          for subclass in pairs(class.subclasses) do subclass[name] = method end
        end
        local base = { __tostring = function(self) return 'instance of ' .. self.class.name end }
        function base:is_a(class)
          local own = self.class
          while own and own ~= class do own = own.super end
          return own ~= nil
        end
        local function make(name, super)
          local dictionary = {}
          dictionary.__index = dictionary
          local class = { name = name, super = super, static = {}, __dictionary = dictionary, subclasses = setmetatable({}, { __mode = 'k' }) }
          setmetatable(class, {
            __index = class.static, __newindex = declare,
            __call = function(self, ...)
              local object = setmetatable({ class = self }, self.__dictionary)
              object:new(...)
              return object
            end })
          for method, f in pairs(super and super.__dictionary or base) do if method ~= '__index' then declare(class, method, f) end end
          if super then super.subclasses[class] = true end
          function class.static:extend(name) return make(name, self) end
          return class
        end
        return { extend = function(_, name) return make(name) end }
        """,
        "registry": """
        local classes, objects = setmetatable({}, { __mode = 'k' }), setmetatable({}, { __mode = 'k' })
        local library = { isClass = function(value) return classes[value] ~= nil end, isObject = function(value) return objects[value] ~= nil end }
        local function make(super)
          local class = {}
          for name, value in pairs(super or {}) do class[name] = value end
          classes[class] = 'a class'
          class.super, class.__index = super, class
          function class:is_a(other)
            assert(objects[self] and classes[other], 'not an object and a class of this library')
            local own = getmetatable(self)
            while own and own ~= other do own = own.super end
            return own ~= nil
          end
          class.extend = function(self) return make(self) end
          return setmetatable(class, { __call = function(self, ...)
            local object = setmetatable({}, self)
            objects[object] = 'an object'
            object:new(...)
            return object
          end })
        end
        function library:extend() return make() end
        return library
        """,
    ]

    private static let preamble = """
        local function run(...)
          local operation = queue:addOperation(...)
          operation:waitUntilFinished()
          if operation.error then error(operation.error.message, 2) end
          return table.unpack(operation.results, 1, operation.results.n)
        end

        """

    private func check(_ source: String, modules: [String: String] = [:]) throws {
        let modules = try ModuleDirectory(modules)
        try script(modules.prelude + "\n" + Self.preamble + source)
    }

    @Test("What returns from an operation has the class that it had before", arguments: ["prototype", "dictionary", "registry"])
    func classes(library: String) throws {
        try check(
            """
            local Object = require '\(library)'
            local Animal = Object:extend 'Animal'
            local function new(self, name) self.name = name end
            local function isEqual(a, b) return a.name == b.name end
            local Dog = Animal:extend 'Dog'
            Animal.new, Animal.__eq, Dog.new, Dog.__eq = new, isEqual, new, isEqual
            local rex = Dog 'rex'
            local isRight, back, fido, max = run(function(op, dog)
              return dog:is_a(Animal) and dog:is_a(Dog) and dog == Dog 'rex' and getmetatable(dog) == getmetatable(rex), dog, Dog 'fido', Dog 'max'
            end, rex)
            assert(isRight and back == rex and fido ~= rex)
            for _, dog in ipairs { back, fido, max } do
              assert(dog:is_a(Dog) and dog:is_a(Animal) and getmetatable(dog) == getmetatable(rex))
            end
            local Cat = run(function() return Animal:extend 'Cat' end)
            Cat.new = new
            assert(Cat.super == Animal and Cat 'tom':is_a(Animal) and not Cat 'tom':is_a(Dog))
            """, modules: Self.libraries)
    }

    @Test func aClassOfALibraryWithRegistriesIsInThemEverywhere() throws {
        try check(
            """
            local library = require 'registry'
            local Point = library:extend()
            function Point:new(x) self.x = x end
            local inside, point = run(function() return library.isClass(Point) and library.isObject(Point(1)), Point(2) end)
            assert(inside and library.isObject(point) and point:is_a(Point) and not library.isObject({}))
            """, modules: Self.libraries)
    }

    @Test func metatablesThatAModuleKeepsInALocalAreTheModules() throws {
        try check(
            """
            local vector = require 'vector'
            local v, isVector = vector.new(1, 2), vector.isVector
            local inside, sum = run(function(op, w) return isVector(v) and vector.isVector(w) and v == w, v + w end, vector.new(1, 2))
            assert(inside and vector.isVector(sum) and sum.x == 2 and getmetatable(sum) == getmetatable(v))
            local iterator = run(function() return vector.new(3, 4):each() end)
            assert(vector.isIterator(iterator) and iterator:next() == 3)
            """,
            modules: [
                "vector": """
                local metatable, methods = {}, {}
                metatable.__index = methods
                local iterator = { __name = 'iterator' }
                iterator.__index = { next = function(self) return self.of.x end }
                local function new(x, y) return setmetatable({ x = x, y = y }, metatable) end
                function metatable.__add(a, b) return new(a.x + b.x, a.y + b.y) end
                function metatable.__eq(a, b) return a.x == b.x and a.y == b.y end
                function methods:each() return setmetatable({ of = self }, iterator) end
                return {
                  new = new, isVector = function(v) return getmetatable(v) == metatable end,
                  isIterator = function(v) return getmetatable(v) == iterator end }
                """
            ])
    }

    @Test func aTableOfTheScriptInAModuleIsNotTheModules() throws {
        try check(
            """
            local library = require 'keeper'
            local Mine = {}
            Mine.__index = Mine
            function Mine.answer() return 42 end
            library.keep(Mine)
            local mine = setmetatable({}, Mine)
            assert(run(function() return mine.answer() end) == 42)
            """, modules: ["keeper": "local kept = {}; return { keep = function(class) kept[1], kept.last = class, class end }"])
    }

    @Test func theNewestContentsOfAClassAreSent() throws {
        try check(
            """
            local Point = { first = function() return 1 end }
            Point.__index = Point
            local point = setmetatable({}, Point)
            assert(run(function() return point.first(), point.second end) == 1)
            function Point.second() return 2 end
            assert(run(function() return point.second() end) == 2)
            Point.second = nil
            assert(run(function() return point.second == nil end))
            """)
    }

    @Test func whatABodyChangesInAClassStaysInTheBody() throws {
        try script(
            workers: 1,
            Self.preamble + """
                local Point = { f = function() return 'script' end }
                Point.__index = Point
                local point = setmetatable({}, Point)
                for i = 1, 3 do
                  local before, back = run(function()
                    local before = point.f()
                    Point.f, Point.added = function() return 'body' end, i
                    return before, point
                  end)
                  assert(before == 'script' and back.f() == 'script' and back.added == nil and getmetatable(back) == Point)
                end
                """)
    }

    @Test func resultsOfOneClassShareItInABody() throws {
        try check(
            """
            local Point = { f = function() return 1 end }
            Point.__index = Point
            local a, b = queue:addOperation(function() return setmetatable({}, Point) end), queue:addOperation(function() return setmetatable({}, Point) end)
            queue:waitUntilAllOperationsAreFinished()
            assert(run(function() return getmetatable(a.result) == getmetatable(b.result) and getmetatable(a.result) == Point end))
            assert(run(function() return getmetatable(a.result) == getmetatable(b.result) and a.result.f() == 1 end))
            local made = queue:addOperation(function()
              local Local = { g = function() return 2 end }
              Local.__index = Local
              return setmetatable({}, Local), setmetatable({}, Local)
            end)
            queue:waitUntilAllOperationsAreFinished()
            assert(getmetatable(made.results[1]) == getmetatable(made.results[2]) and made.results[1].g() == 2)
            """)
    }

    @Test func aTableWithTheDataOfOneObjectIsACopy() throws {
        try check(
            """
            local store = { n = 1 }
            local proxy = setmetatable({}, { __index = store, __newindex = function(_, key, value) store[key] = value end })
            local back = run(function() proxy.n = 5 return proxy end)
            assert(back.n == 5 and proxy.n == 1)
            local function counter()
              local n = 0
              return setmetatable({}, { __call = function() n = n + 1 return n end })
            end
            local count = counter()
            back = run(function() count() return count end)
            assert(back() == 2 and count() == 1)
            local record = run(function(op, r) r.n = 2 return r end, { __type = 'record', n = 1 })
            assert(record.n == 2)
            """)
    }

    @Test func aHundredThousandInstancesHaveOneClass() throws {
        try check(
            """
            local Point = {}
            Point.__index = Point
            function Point:sum() return self.x + self.y end
            local points = {}
            for i = 1, 100000 do points[i] = setmetatable({ x = i, y = 1 }, Point) end
            local back = run(function(op, points)
              for i = 1, #points do assert(getmetatable(points[i]) == Point) end
              return points
            end, points)
            for i = 1, #back do assert(getmetatable(back[i]) == Point) end
            assert(#back == 100000 and back[100000]:sum() == 100001)
            local captures = opscript.captures(function() return points end)
            assert(captures[1].size < 100 * 100000)
            """)
    }

    @Test func aClassThatNothingUsesIsCollected() throws {
        try check(
            """
            local alive = setmetatable({}, { __mode = 'k' })
            for i = 1, 100 do
              local Class = { f = function() end }
              Class.__index = Class
              alive[Class] = true
              local object = setmetatable({}, Class)
              run(function() return object end)
            end
            queue:waitUntilAllOperationsAreFinished()
            collectgarbage() collectgarbage()
            local count = 0
            for _ in pairs(alive) do count = count + 1 end
            assert(count < 10, count)
            """)
    }

    @Test func classesReturnFromWorkerProcesses() throws {
        try withProcesses { runtime in
            try runtime.run(
                Self.preamble + """
                    local Point = { f = function() return 1 end }
                    Point.__index = Point
                    local point = setmetatable({}, Point)
                    for i = 1, 3 do
                      local before, back, new = run(function(op, p)
                        local before = p.f()
                        Point.f = nil
                        return before == 1 and getmetatable(p) == Point, p, setmetatable({}, Point)
                      end, point)
                      assert(before and getmetatable(back) == Point and getmetatable(new) == Point and new.f() == 1)
                    end
                    """)
        }
    }

    @Test func anInstanceOfAClassWithGlobalsOfItsOwnDoesNotReplaceThoseOfABody() throws {
        try check(
            """
            local point = run(function()
              limit = 5
              local Point = { get = function() return limit end }
              Point.__index = Point
              return setmetatable({}, Point)
            end)
            for i = 1, 3 do
              local x, limit = run(function(op, p)
                x = i
                return load 'return x' (), p.get()
              end, point)
              assert(x == i and limit == 5)
            end
            """)
    }

    @Test func placeholdersOfPenlightReturn() throws {
        try check(
            """
            local func = require 'pl.func'
            local expression = func._1 + 2 * func._2
            local sum, back = run(function(op, e) return func.I(e)(1, 2), e end, expression)
            assert(sum == 5 and func.I(back)(1, 2) == 5 and getmetatable(back) == getmetatable(expression))
            """)
    }

    @Test func classesOfPenlightReturn() throws {
        try check(
            """
            local class, List = require 'pl.class', require 'pl.List'
            local Animal = class()
            function Animal:_init(name) self.name = name end
            Animal.__eq = function(a, b) return a.name == b.name end
            local Dog = class(Animal)
            local rex = Dog 'rex'
            local inside, dog, list = run(function(op, dog) return dog:is_a(Animal) and Dog:class_of(dog), Dog 'rex', List { 1, 2 } end, rex)
            assert(inside and dog == rex and dog:is_a(Dog) and dog:is_a() == Dog and Animal:class_of(dog) and list == List { 1, 2 } and list:is_a(List))
            """)
    }

    @Test("Data that a module keeps for an object in a table with weak keys count for the store")
    func privateData() throws {
        let folder = try StoreFolder()
        folder["box.lua"] = """
            local private, Box = setmetatable({}, { __mode = 'k' }), {}
            Box.__index = Box
            function Box.new(x)
              local box = setmetatable({ get = function(self) return private[self].x end }, Box)
              private[box] = setmetatable({ x = x }, { __index = Box })
              return box
            end
            return Box
            """
        func run(_ number: Int) throws -> [LuaValue] {
            try folder.run(
                """
                local box = require 'box'.new(\(number))
                local op = perform { memoize = true, main = function() return box:get() end } return op.result
                """)
        }
        #expect(try run(1) == [1] && run(1) == [1] && run(2) == [2])
    }
}
