import CLua
import CTestSupport
import Testing

/// Each allocation of a state in turn fails for lack of memory.
@Suite(.disabled(if: has_thread_sanitizer(), "one thread only")) struct MemoryTests {
    private static let sources = [
        "return { 1, 'text', { x = { y = {} } } }, ('long'):rep(100)",
        "local n = 0; local function f() n = n + 1; return f, n end; return f, function() return n end",
        "limit = 3; function helper(x) return (x or 0) + limit end; print = nil; return function(x) return helper(x), print end",
        "local t = {} for i = 1, 80 do t = { t, function() return t end } end return t",
        "local insert = table.insert; return function() insert({}, 1); return string.format('%d', 5) end, io.stdout",
        "return setmetatable({ 1 }, { __index = { x = 1 }, __len = function() end })",
        """
        local M = {}
        M.__transfer = function(self) return function(...) return { ... } end, self.a end
        local a = setmetatable({ a = { 1 } }, M)
        return { [a] = a, x = setmetatable({ a = a }, M) }
        """,
        "return { x = coroutine.create(print) }",
    ]

    /// Calls `body` with rising memory limits, starting below the memory in use, until one suffices. Returns the number of failures.
    private func squeeze(_ state: State, step: Int, _ body: () throws -> Void) throws -> Int {
        let base = try state.usedBytes()
        for failures in 0... {
            let count = state.count
            state.limitBytes = base - 2048 + failures * step
            defer { state.limitBytes = 0 }
            do { try body() } catch let error as ScriptError where error.isMemoryError {
                state.limitBytes = 0
                state.count = count
                try state.run("local t = {} for i = 1, 10 do t[i] = i .. '' end assert(#t == 10)")
                try state.run("collectgarbage()")
                continue
            }
            return failures
        }
        return 0
    }

    @Test(arguments: 0..<sources.count)
    func encodingFailsCleanly(_ number: Int) throws {
        let sender = State()
        try sender.run(Self.sources[number])
        let count = sender.count
        let failures = try (1...2).map { _ in
            try squeeze(sender, step: 8) {
                for index in 1...count { unsafe lua_pushvalue(sender.lua, index) }
                do { _ = try sender.encode(count, as: CLUA_BODY) } catch let error as ScriptError where !error.isMemoryError {
                    #expect(error.message.hasPrefix("cannot send the main function.x (a coroutine)"))
                }
                sender.count = count
            }
        }
        // Encoding a tree of plain values allocates nothing in the state, once the state knows which values travel by name.
        #expect(number == 0 ? failures[0] > 128 && failures[1] == 0 : failures[0] + failures[1] > 128)
    }

    @Test(arguments: 0..<sources.count - 1)
    func decodingAndRunningFailCleanly(_ number: Int) throws {
        let parcel = try State().encode(Self.sources[number])
        for environment in [CLUA_FRESH_ENVIRONMENT, CLUA_CURRENT_ENVIRONMENT] {
            let receiver = State()
            let failures = try squeeze(receiver, step: 8) {
                try receiver.decode(parcel, in: environment)
                try receiver.run("for _, f in ipairs { ... } do if type(f) == 'function' then f() end end", arguments: receiver.count)
            }
            #expect(failures > 2048 / 8)
        }
    }

    @Test func failuresLeaveNothingBehind() throws {
        for source in Self.sources.dropLast() {
            let sender = State(), receiver = State()
            try sender.run(source)
            let count = sender.count
            func trip() throws -> (Int, Int) {
                for index in 1...count { unsafe lua_pushvalue(sender.lua, index) }
                try receiver.decode(try sender.encode(count, as: CLUA_BODY), in: CLUA_FRESH_ENVIRONMENT)
                receiver.count = 0
                return (try sender.usedBytes(), try receiver.usedBytes())
            }
            let before = try trip()
            for limit in stride(from: 8, to: 4000, by: 56) {
                sender.limitBytes = before.0 + limit
                receiver.limitBytes = before.1 + limit
                for index in 1...count { unsafe lua_pushvalue(sender.lua, index) }
                if let parcel = try? sender.encode(count, as: CLUA_BODY) { _ = try? receiver.decode(parcel, in: CLUA_FRESH_ENVIRONMENT) }
                receiver.count = 0
            }
            (sender.limitBytes, receiver.limitBytes) = (0, 0)
            let after = try trip()
            #expect(abs(after.0 - before.0) < 2000 && abs(after.1 - before.1) < 2000, "\(source): \(before) then \(after)")
        }
    }

    @Test func aStateThatHasNoRoomIsNotMade() throws {
        let receiver = State()
        receiver.limitBytes = 1
        #expect(throws: ScriptError.self) { try receiver.run("return ('x'):rep(1000000)") }
        receiver.limitBytes = 0
        try receiver.run("return ('x'):rep(1000000)")
    }
}
