import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Tables that code of the script changes while the host reads them.
@Suite struct ChangingTableTests {
    // MARK: between two reads

    private static let changes = [("5", "5"), ("nil", "nil"), ("'text'", "\"text\""), ("print", "a function")]

    /// Registers `read`, which reads a table, lets the script change it, and returns the messages of the errors of reading it again.
    private func register(_ change: String, in runtime: Runtime) throws {
        try runtime.register("read") { (table: LuaTable) in
            let rows = try table.table(at: "rows")
            #expect(try rows.count == 3 && Set(rows.keys) == [1, 2, 3])
            try runtime.run("kept.rows = \(change)")
            #expect(try rows[1] == nil)
            var messages: [LuaValue] = []
            do { messages.append(.integer(try rows.count)) } catch { messages.append(.string("\(error)")) }
            do { messages.append(.integer(try rows.keys.count)) } catch { messages.append(.string("\(error)")) }
            #expect(try table.count == 0 && table.keys.count == (change == "nil" ? 0 : 1))
            return messages
        }
    }

    private func check(_ runtime: Runtime, freeze: String) throws {
        for (change, found) in Self.changes {
            try register(change, in: runtime)
            let message = LuaValue.string("rows: expected a table, found \(found)")
            for call in ["read(kept)", "coroutine.wrap(read)(kept)"] {
                let code = "kept = { rows = \(freeze) { 1, 2, 3 } }; return table.unpack(\(call))"
                #expect(try runtime.run(code) == [message, message])
            }
        }
    }

    @Test("What is no table any more is an error", arguments: ["", "opscript.freeze"])
    func replacedTable(freeze: String) throws { try withRuntime { runtime throws in try check(runtime, freeze: freeze) } }

    @Test func theSameWithWorkerProcesses() throws {
        try withProcesses { runtime throws in
            try check(runtime, freeze: "")
            // A body's table is a copy, which the main script does not reach.
            try runtime.register("counts") { (table: LuaTable) in
                let rows = try table.table(at: "rows")
                return try [rows.count, rows.keys.count]
            }
            let operation = try runtime.operation(
                "kept = { rows = { 1, 2, 3 } }; return queue:addOperation(function() return table.unpack(counts(kept)) end)")
            try runtime.run("kept.rows = 5")
            #expect(try runtime.results(of: operation) == [3, 3])
        }
    }

    @Test func anotherTableInItsPlaceIsRead() throws {
        try withRuntime { runtime throws in
            try runtime.register("read") { (table: LuaTable) in
                let rows = try table.table(at: "rows")
                try runtime.run("kept.rows = opscript.freeze { 'a', key = 'b' }")
                #expect(try rows.count == 1 && Set(rows.keys) == [1, "key"])
                return 0
            }
            try runtime.run("kept = { rows = { 1, 2, 3 } }; return read(kept)")
        }
    }

    // MARK: during a read

    /// Sets `T` to a table of 400 fields. `change` removes them, and adds 1000 others.
    private static func fill(key: String = "'k' .. i", value: String) -> String {
        """
        changes = 0
        function change()
            changes = changes + 1
            for key in next, T do T[key] = nil end
            for i = 1, 1000 do T['n' .. i] = i end
        end
        T = {}
        for i = 1, 400 do T[\(key)] = \(value) end
        """
    }

    /// Reading a frozen table allocates memory, so the collector runs finalizers.
    @Test(arguments: ["return T", "return keys(T)"])
    func finalizersMayChangeTheTable(reading: String) throws {
        let row = "opscript.freeze { i, i + 1, i + 2, i + 3, { i, i } }"
        let fill = reading == "return T" ? Self.fill(value: row) : Self.fill(key: row, value: "true")
        try withRuntime { runtime throws in
            try runtime.register("keys") { (table: LuaTable) in
                let keys = try table.keys
                return LuaValue.table(Dictionary(keys.map { ($0, true) }, uniquingKeysWith: { first, _ in first }))
            }
            var changes = 0
            for _ in 1...20 {
                let finalizer = "setmetatable({}, { __gc = change })"
                let collector = "collectgarbage('restart'); collectgarbage('incremental', 100, 400)"
                let results = try runtime.run("collectgarbage('stop'); \(fill) \(finalizer) \(collector); \(reading)")
                // All fields are of one moment.
                guard case .table(let fields)? = results.first else { return #expect(Bool(false), "\(results)") }
                #expect(fields.count == 400 || fields.count == 1000)
                changes += try runtime.evaluate("changes")
            }
            #expect(changes > 0)
        }
    }

    /// The host may add an operation to a queue of any thread, so what its body captures is encoded when the host gets it.
    @Test func whatAnOperationCapturesMayChangeTheTable() throws {
        try withRuntime { runtime throws in
            let captured = "local captured = setmetatable({}, { __transfer = function() change(); return function() end end })"
            let fill = Self.fill(value: "Operation.new(function() return captured end)")
            let results = try runtime.run("\(captured) \(fill) return T")
            guard case .table(let fields)? = results.first else { return #expect(Bool(false), "\(results)") }
            #expect(fields.count == 400 && fields["k400"]?.operation != nil)
            #expect(try runtime.evaluate("changes") == 400)
        }
    }

    /// The function of a table of options is encoded when the options are read.
    @Test func whatAnOptionCapturesMayChangeTheOptions() throws {
        try withRuntime { runtime throws in
            try runtime.run(
                """
                local captured = setmetatable({}, { __transfer = function() change(); return function() end end })
                \(Self.fill(value: "i"))
                T = { attempts = 2, delay = 1, backoff = 2, maxDelay = 4, jitter = true, when = function() return captured end }
                Operation.new { retry = T }
                assert(changes > 0)
                """)
        }
    }
}
