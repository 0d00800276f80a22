import CLua
import Testing

/// Parcels share the bytes of the classes that they have, once a class was sent.
@Suite struct ClassBytesTests {
    /// Classes as those of middleclass: the metatable of the instances is in a field of the class, which knows its subclasses.
    private static let classes = """
        local function declare(class, name, method) class.__dictionary[name] = method end
        local function make(name, super)
          local dictionary = {}
          dictionary.__index = dictionary
          local class = { name = name, super = super, static = {}, __dictionary = dictionary, subclasses = setmetatable({}, { __mode = 'k' }) }
          setmetatable(class.static, { __index = function(_, key) return rawget(dictionary, key) or super and super.static[key] end })
          setmetatable(class, { __index = class.static, __newindex = declare, __tostring = function() return name end })
          if super then setmetatable(dictionary, { __index = super.__dictionary }) super.subclasses[class] = true end
          for i = 1, 50 do class['method' .. i] = function(self) return self.x + i + #class.name end end
          return class
        end
        Shape = make 'Shape'
        Point = make('Point', Shape)
        local dictionary = Point.__dictionary
        function new(x) return setmetatable({ class = Point, x = x }, dictionary) end

        """

    /// A state that has sent its classes.
    private func sender(_ source: String = classes) throws -> State {
        let state = State()
        try state.run(source)
        _ = try state.encode("return Point")
        return state
    }

    @Test("A thousand operations with one instance each have less than 100 bytes each, and share the class")
    func manyOperations() throws {
        let state = try sender()
        try state.run("function work(op, point) return point.x end")
        var shared: Set<UInt?> = []
        for number in 1...1000 {
            let parcel = try state.encode("return work, new(\(number))", as: CLUA_BODY)
            #expect(parcel.bytes.count < 100 && parcel.size > 1000)
            shared.insert(parcel.classes)
        }
        #expect(shared.count == 1 && shared.first != .some(nil))
    }

    @Test(
        "So have instances in lists, instances and upvalues, with other fields, and classes themselves",
        arguments: [
            "{ new(1), new(2) }", "(function() local p = new(1) p.name, p.other = 'text', new(2) return p end)()",
            "function() return Point.name end", "Point", "new(1), new(2)",
            "(function() local p = new(1) return function() return p.x end end)()",
            "(function() local p = new(1) p.method1, p.name = 'a field', 'as one of the class' return p end)()",
        ])
    func otherValues(value: String) throws {
        let state = try sender()
        try state.run("local Point, new = Point, new function values() return \(value) end")
        let first = try state.encode("return values()", as: CLUA_BODY), second = try state.encode("return values()", as: CLUA_BODY)
        #expect(first.bytes.count < 150 && first.classes == second.classes && first.classes != nil)
    }

    @Test func whatArrivesIsAsIfEachParcelHadItsClasses() throws {
        let state = try sender()
        let parcels = try (1...3).map { try state.encode("return new(\($0))") }
        try state.run("Shape.added = function() return 'added' end")
        let later = try state.encode("return new(4)")
        #expect(parcels[0].classes == parcels[2].classes && parcels[0].classes != later.classes)
        for environment in [CLUA_FRESH_ENVIRONMENT, CLUA_CURRENT_ENVIRONMENT] {
            let receiver = State(), other = State()
            for parcel in parcels { try receiver.decode(parcel, in: environment) }
            try receiver.run(
                """
                local a, b, c = ...
                for _, object in ipairs { b, c } do assert(object.class == a.class and getmetatable(object) == getmetatable(a)) end
                assert(a.x == 1 and c.x == 3 and c:method50() == 58 and a.class.super.subclasses[a.class] and tostring(a.class) == 'Point')
                """, arguments: 3)
            try other.decode(later, in: environment)
            try other.run("assert((...).added() == 'added' and (...).class.super.name == 'Shape')", arguments: 1)
        }
    }

    @Test func classesShareVariablesAndObjectsWithTheOtherValues() throws {
        let state = try sender(
            """
            local count, config = 0, { limit = 5 }
            Point = { add = function() count = count + 1 end, config = config, list = { 1, { 2 } } }
            Point.__index = Point
            function values() return setmetatable({}, Point), function() return count end, Point.add, config, Point.list[2], Point end
            """)
        for environment in [CLUA_FRESH_ENVIRONMENT, CLUA_CURRENT_ENVIRONMENT] {
            let receiver = State(), parcel = try state.encode("return values()")
            #expect(parcel.classes != nil)
            try receiver.decode(parcel, in: environment)
            try receiver.run(
                """
                local p, count, add, config, list, Point = ...
                p.add() add()
                assert(count() == 2 and p.add == add and Point.config == config and Point.list[2] == list and getmetatable(p) == Point)
                """, arguments: 6)
        }
    }

    @Test func deepClassesAndRebuiltObjectsInClassesArrive() throws {
        let state = try sender(
            """
            local function rebuild(n) return { n = n } end
            Point = { zero = setmetatable({}, { __transfer = function() return rebuild, 7 end }), deep = {} }
            Point.__index = Point
            for i = 1, 200 do Point.deep = { Point.deep, a = i, b = i, c = i, d = i } end
            limit = 3
            function Point.get() return limit end
            """)
        let receiver = State(), parcel = try state.encode("return setmetatable({}, Point)")
        #expect(parcel.classes != nil)
        try receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT)
        try receiver.run(
            """
            local p, depth = ..., 0
            local at = p.deep
            while at[1] do at, depth = at[1], depth + 1 end
            assert(depth == 200 and p.zero.n == 7 and p.get() == 3)
            """, arguments: 1)
    }

    @Test func whatIsRefusedIsNamedAsBefore() throws {
        let state = try sender("Point = { f = function() end } Point.__index = Point")
        try state.run("Point.thread = coroutine.create(print)")
        let error = #expect(throws: ScriptError.self) { try state.encode("return { setmetatable({}, Point) }") }
        #expect(error?.message == "cannot send the value[1].<metatable>.thread (a coroutine); create it inside the body")
        // The object is rebuilt, so its metatable does not travel.
        try state.run("Point.__transfer = function(self) return print, self.x end")
        _ = try state.encode("return setmetatable({ x = 1 }, Point)")
    }

    @Test func aKeyDoesNotDependOnWhatWasSentBefore() throws {
        let state = State()
        try state.run(Self.classes)
        try state.run("limit = 5 function Point.limit() return limit end")
        for values in [
            "work, new(1)", "work, { new(1), [new(2)] = new(3), Point, Shape }", "function() return Point, limit end, new(1).method3",
        ] {
            let source = "local Point, new = Point, new local function work(op, p) return p.x + limit end return " + values
            let first = try state.encode(source, as: CLUA_BODY), second = try state.encode(source, as: CLUA_BODY)
            #expect(second.classes != nil)
            let fresh = State()
            try fresh.run(Self.classes)
            try fresh.run("limit = 5 function Point.limit() return limit end")
            let key = try Key(try fresh.encode(source, as: CLUA_BODY))
            #expect(try Key(first).components == key.components && Key(second).components == key.components, "\(values)")
        }
    }

    @Test("The place and the parameters of a body are those of its function, not of a method")
    func bodies() throws {
        let state = try sender("Point = { f = function(a, b) end } Point.__index = Point")
        try state.run("\n\n\nlocal p = setmetatable({}, Point) function work() return p end")
        let parcel = try state.encode("return work", as: CLUA_BODY)
        #expect(parcel.classes != nil && !parcel.hasParameters)
        #expect(parcel.place == "<test:4>")
    }

    @Test("Wrong bytes of classes are an error, or classes; those of a parcel that fails are used by no other")
    func wrongBytes() throws {
        let state = try sender("Point = { 'text', f = function(p) return p.x + 1 end, [Point or 2] = { 1, 2.5 } } Point.__index = Point")
        let parcel = try state.encode("return setmetatable({ x = 1 }, Point)"), right = parcel.classBytes, receiver = State()
        try receiver.run("os, io, load, require = nil")
        var failures = 0
        func attempt(_ bytes: [UInt8]) {
            failures += receiver.decode(parcel, classes: bytes, in: CLUA_CURRENT_ENVIRONMENT) == LUA_OK ? 0 : 1
            receiver.count = 0
        }
        for count in right.indices { attempt(Array(right[..<count])) }
        #expect(failures > right.count / 2)
        try receiver.decode(parcel, in: CLUA_CURRENT_ENVIRONMENT)
        try receiver.run("local p = ... assert(getmetatable(p)[1] == 'text' and p:f() == 2)", arguments: 1)
        for index in right.indices {
            for byte in [0, 1, 9, 10, 11, 15, 127, 128, 255, right[index] &+ 1] as [UInt8] {
                var bytes = right
                bytes[index] = byte
                attempt(bytes)
            }
        }
        #expect(failures > right.count && receiver.decode(parcel, classes: nil, in: CLUA_CURRENT_ENVIRONMENT) != LUA_OK)
    }
}
