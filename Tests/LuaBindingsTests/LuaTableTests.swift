import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Tables that functions of the host read where they are.
@Suite struct LuaTableTests {
    private struct Row: Codable {
        var name: String
        var price: Double
    }

    private static let orders =
        "{ rows = { { name = 'a', price = 1 }, { name = 'b', price = 2.5 } }, [true] = 'yes', [1.5] = 'float', 'one' }"

    @Test("A typed function reads fields at paths", arguments: ["", "opscript.freeze"])
    func fields(frozen: String) throws {
        try withRuntime { runtime throws in
            try runtime.register("read") { (orders: LuaTable) in
                let rows = try orders.table(at: "rows")
                #expect(try rows.count == 2 && orders.count == 1 && rows.table(at: 2).count == 0)
                #expect(try orders["rows", 2, "price"] == 2.5 && rows[1, "name"] == "a" && rows.table(at: 2)["name"] == "b")
                #expect(try orders[1] == "one" && orders[true] == "yes" && orders[1.5] == "float")
                #expect(
                    try orders["none"] == nil && orders["none", "deeper", 1] == nil && orders[[1]] == nil && orders[LuaValue.nil] == nil)
                #expect(try orders[] == orders.toLua() && rows[1] == ["name": "a", "price": 1])
                #expect(try Set(orders.keys) == ["rows", 1, 1.5, true] && Set(rows.table(at: 1).keys) == ["name", "price"])
                let row: Row = try orders.decode(at: "rows", 2)
                return row.name
            }
            #expect(try runtime.run("return read(\(frozen)(\(Self.orders)))") == ["b"])
            // On a worker, in a coroutine.
            let operation = try runtime.operation(
                "return queue:addOperation(function() return coroutine.wrap(function() return read(\(frozen)(\(Self.orders))) end)() end)")
            #expect(try runtime.results(of: operation) == ["b"])
        }
    }

    @Test("The keys are read without what is at them", arguments: ["", "opscript.freeze"])
    func keysAlone(frozen: String) throws {
        try withRuntime { runtime throws in
            try runtime.register("keyCount") { (table: LuaTable) in try table.keys.count }
            let growth: Double = try runtime.evaluate(
                """
                local rows = {}
                for i = 1, 10 do
                    rows[i] = {}
                    for j = 1, 1000 do rows[i][j] = j end
                end
                rows = \(frozen)(rows)
                collectgarbage 'stop'
                local before = collectgarbage 'count'
                assert(keyCount(rows) == 10)
                return collectgarbage 'count' - before
                """)
            #expect(growth < 10, "kibibytes; the elements of the rows take 160")
        }
    }

    @Test func metamethodsAreNotCalled() throws {
        try withRuntime { runtime throws in
            try runtime.register("read") { (table: LuaTable) in try [table["x"], .integer(table.count)] }
            #expect(
                try runtime.run(
                    "return read(setmetatable({ 1 }, { __index = function() error 'no' end, __len = function() return 9 end }))")
                    == [[nil, 1]])
        }
    }

    @Test func whatDoesNotFitIsNamed() throws {
        try withRuntime { runtime throws in
            try runtime.register("read") { (table: LuaTable) in try table.table(at: "rows", 2).count }
            try runtime.register("decode") { (table: LuaTable, _: LuaTable?) in try table.decode(Row.self, at: "rows", 1).name }
            try runtime.register("whole") { (tables: [LuaTable]) in tables.count }
            for (call, message) in [
                ("read(1)", "bad argument #1 to 'read' (table expected, got number)"),
                ("read()", "bad argument #1 to 'read' (table expected, got no value)"),
                ("read { }", "rows[2]: expected a table, found nil"),
                ("read { rows = { 1, 2 } }", "rows[2]: expected a table, found 2"),
                ("decode({ }, 7)", "bad argument #2 to 'decode' (table expected, got number)"),
                ("decode { rows = { { name = 'a' } } }", "rows[1].price: expected a number, found nil"),
                (
                    "whole { {} }",
                    "a LuaTable is a parameter itself, not a part of another one: take that as a LuaTable, and use table(at:)"
                ),
            ] {
                let found: String = try runtime.evaluate("select(2, pcall(function() return (\(call)) end))")
                #expect(found.hasSuffix(message), "\(found)")
            }
        }
    }

    /// A direct function may add results while it has tables.
    @Test func resultsAndTablesDoNotMix() throws {
        try withRuntime { runtime throws in
            try runtime.registerDirect("read") { call in
                let table = try call.table(at: 1)
                try call.push(table["a"])
                try call.push(call.argumentCount)
                try call.push(table.table(at: "t")["b"])
                try call.push(call.isNil(at: 2))
                #expect(throws: (any Error).self) { try call.table(at: 2) }
            }
            #expect(try runtime.run("return read { a = 'x', t = { b = 'y' } }") == ["x", 1, "y", true])
        }
    }

    /// A table that is kept, against the rules.
    // Safety: used by one thread.
    private final class Keeper: @unchecked Sendable {
        var table: LuaTable?
        func read() -> String {
            guard let table else { return "nothing" }
            do { return "\(try table["x"])" } catch { return "\(error)" }
        }
    }

    @Test func outsideOfItsCallATableIsAnError() throws {
        let outside = "a LuaTable is read outside of the call whose argument it is: read what is needed before, or take a LuaValue"
        let keeper = Keeper()
        try withRuntime { runtime throws in
            try runtime.register("inner") { (_: LuaTable) in keeper.read() }
            try runtime.register("outer") { (table: LuaTable) in
                keeper.table = table
                let inside: [LuaValue] = try runtime.run("return inner {}, inner(kept), coroutine.wrap(inner) {}")
                return inside + [.string(keeper.read())]
            }
            // Where the inner call has the same table, reading it there does no harm.
            #expect(
                try runtime.run("kept = { x = 1 }; return table.unpack(outer(kept))") == [.string(outside), "1", .string(outside), "1"])
            #expect(keeper.read() == outside)
        }
        #expect(keeper.read() == outside)
    }

    @Test func aFunctionThatThrowsEndsItsTablesToo() throws {
        let keeper = Keeper()
        struct Refusal: Error {}
        try withRuntime { runtime throws in
            try runtime.register("keep") { (table: LuaTable) -> Int in
                keeper.table = table
                throw Refusal()
            }
            try runtime.run("pcall(keep, { x = 1 })")
            #expect(keeper.read().hasPrefix("a LuaTable is read outside"))
        }
    }

    @Test func methodsAndWorkerProcessesHaveThemToo() throws {
        final class Shop: LuaObject {}
        try withProcesses { runtime in
            var shop = LuaClass<Shop>("Shop")
            shop.function("new") { Shop() }
            shop.method("price") { (_: Shop, order: LuaTable) -> LuaValue in try order["row", "price"] }
            try runtime.register(shop)
            let operation = try runtime.operation(
                "return queue:addOperation(function() return Shop.new():price { row = { price = 3 }, f = print } end)")
            #expect(try runtime.results(of: operation) == [3])
            #expect(try runtime.run("return Shop.new():price { row = { price = 4 } }") == [4])
        }
    }

    /// Of the results of an operation, an expression reads a part.
    @Test func anExpressionReadsAPartOfAResult() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                "return queue:addOperation(function() return { rows = { { price = 1 }, { price = 2 } } } end)")
            operation.waitUntilFinished()
            #expect(try runtime.evaluate("(...).result.rows[2].price", arguments: [.operation(operation)]) == 2)
            try runtime.register("last") { (result: LuaTable) in try result["rows", 2, "price"] }
            #expect(try runtime.evaluate("last((...).result)", arguments: [.operation(operation)]) == 2)
        }
    }
}
