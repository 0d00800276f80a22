import TestSupport
import Testing

@testable import LuaBindings

/// A body finds nothing of the bodies that ran before it in its state, nor of their callbacks.
@Suite struct LeftoverTests {
    private static func configuration(_ isolation: Runtime.Isolation = .threads) -> Runtime.Configuration {
        var configuration = Runtime.Configuration()
        configuration.ignoresEnvironment = true
        configuration.isolation = isolation
        configuration.workerCount = 1
        return configuration
    }

    /// Calls `body` with an untrusted runtime of one worker, or with a trusted one.
    private func withOneWorker(
        _ isolation: Runtime.Isolation, isSandboxed: Bool = true, _ body: (Runtime) throws -> Void
    ) throws {
        var configuration = Self.configuration(isolation)
        if isSandboxed { configuration.sandbox = .untrusted }
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run("queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 1 }")
        try body(runtime)
    }

    /// A statement of a hostile body.
    private static func change(_ random: inout SeededGenerator) -> String {
        let library = ["string", "table", "math", "utf8", "coroutine", "os", "package", "opscript", "opscript.Operation"].randomElement(
            using: &random)!
        let name = ["rep", "concat", "floor", "char", "wrap", "time", "loaded", "sleep", "new", "added"].randomElement(using: &random)!
        let value = ["nil", "1", "print", "{}", "function() return 'changed' end"].randomElement(using: &random)!
        let changes = [
            "\(library).\(name) = \(value)", "rawset(\(library), '\(name)', \(value))", "\(name) = \(value)", "_G.\(name) = \(value)",
            "package.loaded._G.\(name) = \(value)", "package.loaded.\(library) = \(value)", "package.preload.\(name) = \(value)",
            "table.insert(package.searchers, 1, \(value))", "package.path = '\(name)'", "getmetatable('').__index = \(value)",
            "getmetatable('').__add = \(value)", "getmetatable('').\(name) = \(value)", "setmetatable(string, { __index = \(value) })",
            "setmetatable(_G, { __index = print })", "setmetatable(package.loaded._G, { __index = { \(name) = 1 } })",
            "for key in pairs(\(library)) do \(library)[key] = \(value) end", "load('\(library).\(name) = \(value)')()",
            "math.randomseed(\(Int.random(in: 0...9, using: &random)))", "local metatable = getmetatable(op) metatable.__index = \(value)",
            "local metatable = getmetatable(opscript.freeze {}) metatable.__index = \(value)", "error { \(library) }",
            "package.loaded.package.loaded.opscript.\(name) = \(value)", "collectgarbage 'stop'", "error(\(value))",
        ]
        return changes.randomElement(using: &random)!
    }

    /// A body of several changes. Some happen later, in its callbacks.
    private static func body(_ random: inout SeededGenerator) -> String {
        var lines: [String] = []
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let change = change(&random),
                ways = [
                    "\(change)", "coroutine.wrap(function() \(change) end)()", "opscript.after(0, function() \(change) end)",
                    "opscript.after(0, function() load(\"op = nil \(change.replacing("\"", with: "'"))\")() end)",
                    "local other = opscript.Operation.new(function() end) other.completionBlock = function() \(change) end other:start()",
                    "op.completionBlock = function() \(change) end", "op:observe('isFinished', function() \(change) end)",
                ]
            lines.append("pcall(function() \(ways.randomElement(using: &random)!) end)")
        }
        return "local op = ... " + lines.joined(separator: "\n")
    }

    @Test(arguments: [Runtime.Isolation.threads, .process])
    func nothingReachableDiffersAfterHostileBodies(isolation: Runtime.Isolation) throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        var random = SeededGenerator(seed: seed)
        let bodies = (0..<300).map { _ in LuaValue.string(Self.body(&random)) }
        try withOneWorker(isolation) { runtime in
            let different = try runtime.run(
                """
                local walk, members, bodies = ...
                -- Waits for a timer of its own, so that the callbacks of all others have run meanwhile.
                local function look(op)
                    local first, fired = load(walk)(members, op), opscript.channel { capacity = 1 }
                    opscript.after(0.001, function() fired:send(true) end)
                    fired:receive()
                    return first, load(walk)(members, op)
                end
                local known, different, compared = {}, {}, 0
                local function compare(found, number)
                    local state = found["_G.string"]
                    if not known[state] then known[state] = found return end
                    compared = compared + 1
                    for path, value in pairs(known[state]) do
                        if not path:find "^<" and path ~= "_G" and found[path] ~= value then
                            different[#different + 1] = number .. ": " .. path .. " was " .. value .. ", is " .. tostring(found[path])
                        end
                    end
                    for path, value in pairs(found) do
                        if not known[state][path] then different[#different + 1] = number .. ": " .. path .. " is " .. value end
                    end
                end
                compare(queue:addOperation(look):get(), 0)
                for i, source in ipairs(bodies) do
                    local hostile = queue:addOperation(function(op, source) return load(source)(op) end, source)
                    hostile:waitUntilFinished()
                    local _ = hostile.error
                    if i % 5 == 0 then
                        local before, after = queue:addOperation(look):get()
                        compare(before, i)
                        compare(after, i .. ", later")
                    end
                end
                return #different, compared, table.concat(different, "\\n", 1, math.min(#different, 20))
                """,
                arguments: [.string(Reachable.walk), .string(Reachable.members.joined(separator: " ")), .array(bodies)])
            #expect(different[0] == 0, "seed \(seed): \(different[2].text ?? "")")
            #expect(try #require(different[1].integer) >= 100, "seed \(seed)")
        }
    }

    @Test(arguments: [Runtime.Isolation.threads, .process], [true, false])
    func aCallbackOfAnEndedBodyChangesNothingForTheBodyThatWaits(isolation: Runtime.Isolation, isSandboxed: Bool) throws {
        try withOneWorker(isolation, isSandboxed: isSandboxed) { runtime in
            let found = try runtime.run(
                """
                local running, hasChanged = opscript.channel { capacity = 1 }, opscript.channel { capacity = 1 }
                local ended = opscript.channel { capacity = 1 }
                queue:addOperation(function()
                    local function change(timer)
                        if ended:tryReceive() then return timer:cancel() end
                        if running.count == 0 then return end
                        string.upper = function() return "changed" end
                        getmetatable("").__index = { lower = function() return "changed" end }
                        tostring, math.max, table.concat = nil, nil, nil
                        package.loaded._G.leak = 1
                        load("leak = 1")()
                        math.randomseed(7)
                        hasChanged:trySend(true)
                    end
                    opscript.every(0.001, change)
                end):get()
                return queue:addOperation(function()
                    math.random()
                    running:send(true)
                    hasChanged:receive()
                    local upper, lower, number = string.upper("x"), ("X"):lower(), math.random(1 << 40)
                    hasChanged:receive()
                    ended:send(true)
                    return upper, lower, tostring(1), math.max(1, 2), table.concat { "ok" }, package.loaded._G.leak == nil,
                        number ~= math.random(1 << 40)
                end):get()
                """)
            // Outside of a sandbox, the functions of preludes and modules may keep values there.
            #expect(found == ["X", "x", "1", 2, "ok", .boolean(isSandboxed), true])
        }
    }

    /// In a sandbox, such a callback counts as one of another body, which could have kept a library.
    @Test func aCallbackWithoutGlobalsFindsTheChangesOfTheBodyThatWaits() throws {
        try withOneWorker(.threads, isSandboxed: false) { runtime in
            let found = try runtime.run(
                """
                return queue:addOperation(function()
                    local done, text, shouted = opscript.channel { capacity = 1 }, "x", nil
                    function string.shout(s) return s .. "!" end
                    opscript.after(0, function() shouted = text:shout() done:send(true) end)
                    done:receive()
                    return shouted
                end):get()
                """)
            #expect(found == ["x!"])
        }
    }

    @Test func aBodysOwnCallbacksFindItsChanges() throws {
        try withOneWorker(.threads) { runtime in
            let found = try runtime.run(
                """
                return queue:addOperation(function()
                    local done, seen = opscript.channel { capacity = 1 }
                    function string.upper() return "mine" end
                    opscript.after(0, function()
                        seen = ("x"):upper()
                        function string.lower() return "callback's" end
                        done:send(true)
                    end)
                    done:receive()
                    return seen, ("X"):lower(), ("x"):upper()
                end):get()
                """)
            #expect(found == ["mine", "callback's", "mine"])
        }
    }

    @Test(arguments: [Runtime.Isolation.threads, .process])
    func theSeedOfABodyEndsWithIt(isolation: Runtime.Isolation) throws {
        let draw = "queue:addOperation(function() return math.random(1 << 60), math.random(1 << 60) end):get()"
        func seed(_ number: Int) -> String {
            "queue:addOperation(function() math.randomseed(\(number)) return math.random(1 << 60) end):get()"
        }
        try withOneWorker(isolation) { runtime in
            let values = try runtime.run("return \(seed(7)), { \(draw) }, \(seed(7)), { \(draw) }")
            #expect(values[0] == values[2] && values[1] != values[3])
        }
        // A configured seed gives the same numbers, whatever a body seeds between them.
        var configuration = Self.configuration(isolation)
        configuration.randomSeed = 42
        var sequences: [[LuaValue]] = []
        for between in ["nil", seed(7)] {
            let runtime = try Runtime(configuration)
            defer { runtime.close() }
            sequences.append(
                try runtime.run(
                    """
                    queue = opscript.OperationQueue.new { maxConcurrentOperationCount = 1 }
                    local first, _, second = { \(draw) }, \(between), { \(draw) }
                    return first, second
                    """))
        }
        #expect(sequences[0] == sequences[1])
    }
}
