import CLua
import TestSupport
import Testing

/// Keys: digests of the contents of a parcel. They are the same in every state and process, and differ if the meaning differs.
@Suite struct KeyTests {
    @Test("A frozen value counts by its contents, and differs from an ordinary one")
    func frozenValues() throws {
        func key(_ value: String) throws -> Key { try State.key(of: "local t = \(value) return function() return t end") }
        let frozen = try key("opscript.freeze { 1, 2, name = 'a', [2.5] = { deep = { true } } }")
        #expect(try key("opscript.freeze { [2.5] = { deep = { true } }, name = 'a', 1, 2 }") == frozen)
        for other in [
            "{ 1, 2, name = 'a', [2.5] = { deep = { true } } }", "opscript.freeze { 1, 2, name = 'b', [2.5] = { deep = { true } } }",
            "opscript.freeze { 1, 2, name = 'a', [2.5] = { deep = { false } } }",
            "opscript.freeze { 1, name = 'a', [2.5] = { deep = { true } } }",
        ] {
            #expect(try key(other).changes(from: frozen) == ["upvalue 't' of function 'main'"], "\(other)")
        }
        #expect(
            try key("(function() local t = {} t.t = t return opscript.freeze(t) end)()")
                == key("(function() local t = {} t.t = t return opscript.freeze(t) end)()"))
        let isDeep = "(function() local t = {} for _ = 1, 100000 do t = { t } end return opscript.freeze(t) end)()"
        #expect(try key(isDeep) == key(isDeep))
        #expect(throws: KeyError.malformed) { try key("opscript.freeze { function() end }") }
    }

    private func expectEqual(_ first: String, _ second: String, _ place: SourceLocation = #_sourceLocation) throws {
        let (left, right) = (try State.key(of: first), try State.key(of: second))
        #expect(left.components == right.components, sourceLocation: place)
    }

    private func expectChange(
        _ label: String, from first: String, to second: String, _ place: SourceLocation = #_sourceLocation
    ) throws {
        let (before, after) = (try State.key(of: first), try State.key(of: second))
        #expect(after.changes(from: before) == [label], sourceLocation: place)
    }

    @Test("A function, what it captures and its arguments are components")
    func components() throws {
        let key = try State.key(
            of: """
                local flags = { '-O2' }
                local function helper() return flags end
                count = 5
                return function(op, a) return helper(), count, a end, 1, { 2 }
                """)
        #expect(
            key.labels == [
                "function 'main'", "argument 1", "argument 2", "function 'helper'", "global 'count'",
                "upvalue 'flags' of function 'helper'",
            ])
    }

    @Test("One component changes if one thing does")
    func changes() throws {
        let source = "local a, b, f = 1, { x = 2 }, function() return 3 end; count = 4; return function() return a, b, f(), count end, 5"
        try expectChange("upvalue 'a' of function 'main'", from: source, to: source.replacing("a, b, f = 1", with: "a, b, f = 1.0"))
        try expectChange("upvalue 'b' of function 'main'", from: source, to: source.replacing("x = 2", with: "x = '2'"))
        try expectChange("function 'f'", from: source, to: source.replacing("return 3", with: "return 4"))
        try expectChange("global 'count'", from: source, to: source.replacing("count = 4;", with: "count = 5;"))
        try expectChange("argument 1", from: source, to: source.replacing("end, 5", with: "end, 6"))
        try expectChange("function 'main'", from: source, to: source.replacing("return a, b", with: "return b, a"))
    }

    @Test("Comments, names of locals and lines do not count")
    func debugInformation() throws {
        let source = "local a = 1\nreturn function(x)\n  local y = x + a\n  return y\nend"
        try expectEqual(source, "\n\n-- comment\n" + source)
        try expectEqual(source, source.replacing("y", with: "other"))
        try expectEqual("return function(x) return x end", "return load(string.dump(function(x) return x end, true))")
    }

    @Test("A changed line is found wherever the function has moved to")
    func lines() throws {
        let source = "local n = 1\nreturn function(x)\n  local y = x + 1\n  for i = 1, 3 do\n    y = y * n\n  end\n  return y\nend"
        let before = try State.key(of: source)
        #expect(before.lines["function 'main'"]?.keys.sorted() == [3, 4, 5, 7, 8])
        let moved = try State.key(of: "-- comment\n\n" + source)
        #expect(moved.changedLines(of: "function 'main'", from: before) == [])
        let changed = try State.key(of: "-- comment\n\n" + source.replacing("y * n", with: "y // n"))
        #expect(changed.changedLines(of: "function 'main'", from: before) == [7])
        let longer = try State.key(of: source.replacing("y = y * n", with: "y = y * n\n    y = y + 100"))
        #expect(longer.changedLines(of: "function 'main'", from: before) == [6])
        let constant = try State.key(of: source.replacing("x + 1", with: "x + 'other'"))
        #expect(constant.changedLines(of: "function 'main'", from: before) == [3])
    }

    @Test("How a table was built does not count")
    func layout() throws {
        let tables = [
            "{ 1, 2, 3 }", "(function() local t = {} t[3] = 3 t[2] = 2 t[1] = 1 return t end)()",
            "(function() local t = { [3] = 3, [1] = 1, [2] = 2 } return t end)()",
            "(function() local t = { 1, 2, 3, 4, x = 1 } t[4] = nil t.x = nil return t end)()",
        ]
        for table in tables.dropFirst() { try expectEqual("return function() end, \(tables[0])", "return function() end, \(table)") }
        try expectEqual(
            "return function() end, { a = 1, b = 2, [false] = 3, [2.5] = 4 }",
            "return function() end, { [2.5] = 4, [false] = 3, b = 2, a = 1 }")
    }

    @Test("A table that others share counts as shared, and cycles are numbered")
    func sharing() throws {
        let shared = "local x = {}; return function() end, { x, x }", equal = "return function() end, { {}, {} }"
        try expectChange("argument 1", from: shared, to: equal)
        let cycle = "local t = { a = {} } t.a.t = t t[t] = t return function() return t end"
        try expectEqual(cycle, cycle)
        try expectChange("upvalue 't' of function 'main'", from: cycle, to: cycle.replacing("t.a.t = t", with: "t.a.t = t.a"))
        // Closures that share a variable differ from closures that have equal variables.
        let one = "local n = 0; return function() n = n + 1 end, { function() return n end }"
        let two = "local n = 0; local m = 0; return function() n = n + 1 end, { function() return m end }"
        #expect(try State.key(of: one).components != State.key(of: two).components)
    }

    @Test("Tables and functions as keys count by their contents")
    func objectsAsKeys() throws {
        let source = """
            local t = {}
            for i = 1, 20 do t[{ i }] = i; t[function() return i end] = { i } end
            return function() return t end
            """
        try expectEqual(source, source.replacing("for i = 1, 20", with: "for i = 20, 1, -1"))
        try expectChange("upvalue 't' of function 'main'", from: source, to: source.replacing("t[{ i }] = i", with: "t[{ i }] = i % 7"))
        // The two keys differ only in whether their two elements are one table.
        try expectEqual(
            "local a, b, c = {}, {}, {}; local t = { [{ a, a }] = 1, [{ b, c }] = 1 }; return function() return t end",
            "local a, b, c = {}, {}, {}; local t = { [{ b, c }] = 1, [{ a, a }] = 1 }; return function() return t end")
    }

    @Test("Deep values take no C stack")
    func deepValues() throws {
        let source = "local t = 1 for i = 1, 200000 do t = { t } end return function() return t end"
        let key = try State.key(of: source)
        #expect(key.labels == ["function 'main'", "upvalue 't' of function 'main'"])
        try expectChange("upvalue 't' of function 'main'", from: source, to: source.replacing("t = 1", with: "t = 2"))
        try expectEqual(
            "local f = print for i = 1, 3000 do local g = f f = function() return g end end return f",
            "local f = print for i = 1, 3000 do local g = f f = function() return g end end return f")
    }

    @Test("Modules that are captured or required are named")
    func modules() throws {
        let key = try State.key(of: "local s = string; return function() return require 'a.b', require('c'), s, require(s.rep('x', 2)) end")
        #expect(key.modules == ["a.b", "c", "string"])
        #expect(try State.key(of: "local require = require; return function() return require 'a' end").modules == ["a", "_G"])
    }

    @Test("Functions in tables are components, and can be told apart")
    func methods() throws {
        let source =
            "local M = { run = function() return 1 end, list = { function() return 2 end } }; return function() return M.run(), M.list end"
        #expect(
            try State.key(of: source).labels == [
                "function 'main'", "upvalue 'M' of function 'main'", "function 'M.list[1]'", "function 'M.run'",
            ])
        try expectChange("function 'M.run'", from: source, to: source.replacing("return 1", with: "return 3"))
    }

    @Test("A label occurs once")
    func labels() throws {
        let key = try State.key(
            of:
                "local function a() local x = 1; return function() return x end end; local f = a(); local t = { f = a() }; return function() return f, t end"
        )
        #expect(Set(key.labels).count == key.labels.count)
    }

    @Test("Rebuilt values count by the function that rebuilds them, and its arguments")
    func rebuiltValues() throws {
        let source = """
            local M = {}
            M.__transfer = function(self) return function(x) return { x } end, self.x end
            local a = setmetatable({ x = 1, other = 2 }, M)
            return function() return a end
            """
        try expectEqual(source, source.replacing("other = 2", with: "other = 3"))
        #expect(try State.key(of: source).components != State.key(of: source.replacing("x = 1", with: "x = 2")).components)
    }

    @Test("A long string counts in full, and is not copied")
    func longStrings() throws {
        let source = "local s = ('x'):rep(1 << 20); return function() return s end"
        try expectEqual(source, source)
        try expectChange("upvalue 's' of function 'main'", from: source, to: source.replacing("1 << 20)", with: "(1 << 20) - 1) .. 'y'"))
    }

    @Test("Random values have one key in whatever order they are built, and another one after a change")
    func randomValues() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededGenerator(seed: seed)
        for number in 0..<TestLength.size(300) {
            var value = RandomTable(&random)
            let first = try State.key(of: value.source(order: &random)), second = try State.key(of: value.source(order: &random))
            #expect(first.components == second.components, "seed \(seed), case \(number)")
            value.change(&random)
            let third = try State.key(of: value.source(order: &random))
            #expect(first.components != third.components, "seed \(seed), case \(number)")
        }
    }
}

/// A graph of tables. Each table has a number of its own, so no two of them are equal. Its integer keys from 1 have no holes: with a hole, the order
/// of assignments decides what `#` returns, which counts in the key.
private struct RandomTable {
    private struct Entry {
        var key: String
        var value: String
    }

    private var tables: [[Entry]] = []

    init(_ random: inout SeededGenerator) {
        let count = Int.random(in: 1...8, using: &random)
        for number in 0..<count {
            var entries = [Entry(key: "'number'", value: "\(number)")]
            var keys: Set<String> = ["'number'"]
            let length = Int.random(in: 0...4, using: &random)
            for index in 0..<length { entries.append(Entry(key: "\(index + 1)", value: Self.value(count, &random))) }
            for _ in 0..<Int.random(in: 0...8, using: &random) {
                let key = Self.key(count, &random)
                if keys.insert(key).inserted { entries.append(Entry(key: key, value: Self.value(count, &random))) }
            }
            tables.append(entries)
        }
    }

    private static func key(_ count: Int, _ random: inout SeededGenerator) -> String {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: "t[\(Int.random(in: 1...count, using: &random))]"
        case 1: "\(Int.random(in: -2...0, using: &random))"
        case 2: "\(Int.random(in: -2...6, using: &random)).5"
        case 3: Bool.random(using: &random) ? "true" : "false"
        default: "'k\(Int.random(in: 0...20, using: &random))'"
        }
    }

    private static func value(_ count: Int, _ random: inout SeededGenerator) -> String {
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1: "t[\(Int.random(in: 1...count, using: &random))]"
        case 2: "function() return \(Int.random(in: 0...3, using: &random)) end"
        case 3: "('s'):rep(\(Int.random(in: 0...30_000, using: &random)))"
        default: "\(Int.random(in: 0...100, using: &random))"
        }
    }

    /// A script that makes the tables, and fills them in a random order.
    func source(order random: inout SeededGenerator) -> String {
        var lines = ["local t = {}", "for i = 1, \(tables.count) do t[i] = {} end"]
        var assignments: [String] = []
        for (index, entries) in tables.enumerated() {
            for entry in entries { assignments.append("t[\(index + 1)][\(entry.key)] = \(entry.value)") }
        }
        lines += assignments.shuffled(using: &random)
        return lines.joined(separator: "\n") + "\nlocal all = t\nreturn function() return all end"
    }

    mutating func change(_ random: inout SeededGenerator) {
        let table = Int.random(in: 0..<tables.count, using: &random), entry = Int.random(in: 0..<tables[table].count, using: &random)
        tables[table][entry].value = "'changed'"
    }
}
