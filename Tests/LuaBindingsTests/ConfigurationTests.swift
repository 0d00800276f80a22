import LuaBindings
import OpEngine
import TestSupport
import Testing

/// The host's settings for all states of a runtime.
@Suite struct ConfigurationTests {
    private func withConfiguration<Result>(
        _ change: (inout Runtime.Configuration) -> Void, _ body: (Runtime) throws -> Result
    ) throws -> Result {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 2
        configuration.ignoresEnvironment = true
        change(&configuration)
        let runtime = try Runtime(configuration)
        defer { #expect(runtime.close(deadline: .seconds(30)).isEmpty) }
        try runtime.run("queue = opscript.OperationQueue.new 'test'")
        return try body(runtime)
    }

    /// Runs `source` in the main state and in an operation, and returns what each returns.
    private func everywhere(_ source: String, in runtime: Runtime) throws -> [[LuaValue]] {
        let operation = try #require(try runtime.run("return queue:addOperation(function() \(source) end)").first?.operation)
        return [try runtime.run(source), try runtime.results(of: operation)]
    }

    @Test func outputGoesToTheSinks() throws {
        let (output, errors) = (Locked<[String]>([]), Locked<[String]>([]))
        try withConfiguration { configuration in
            configuration.output = { bytes in output.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) } }
            configuration.errorOutput = { bytes in errors.withLock { $0.append(String(decoding: bytes, as: UTF8.self)) } }
        } _: { runtime throws in
            try runtime.enableWarnings()
            _ = try everywhere(
                """
                print('a', 1, nil)
                assert(io.write('b', 2, 3.0) == io.stdout)
                io.stdout:write('c', 4):write 'd'
                io.stderr:write 'e'
                warn('f', 'g')
                assert(not pcall(io.write, 'h', {}))
                """, in: runtime)
            try runtime.run("opscript.after(0, function() error 'late' end)")
            _ = try runtime.finish()
        }
        let once = ["a\t1\tnil\n", "b23", "c4", "d", "h"]
        #expect(output.withLock { $0.sorted() } == (once + once).sorted())
        #expect(errors.withLock { $0.filter { $0 == "e" }.count } == 2)
        #expect(errors.withLock { $0.filter { $0 == "Lua warning: fg\n" }.count } == 2)
        #expect(errors.withLock { $0.filter { $0.hasPrefix("opscript: error in a timer's function: script:1: late") }.count } == 1)
    }

    @Test func filesStayFiles() throws {
        let output = Locked<[UInt8]>([])
        try withConfiguration {
            $0.output = { bytes in output.withLock { $0 += bytes } }
        } _: { runtime throws in
            #expect(
                try runtime.run(
                    """
                    local file = io.tmpfile()
                    io.output(file)
                    io.write('in the file')
                    file:write '!'
                    io.output(io.stdout)
                    file:seek 'set'
                    return file:read 'a'
                    """) == ["in the file!"])
        }
        #expect(output.withLock { $0.isEmpty })
    }

    @Test func modulesComeFromTheHost() throws {
        struct Refusal: Error, CustomStringConvertible { let description = "not today" }
        let asked = Locked<[String]>([])
        try withConfiguration {
            $0.modulePaths = []
            $0.cModulePaths = []
            $0.moduleLoader = { name in
                asked.withLock { $0.append(name) }
                switch name {
                case "shop": return "local M = { tax = require 'shop.tax' }; function M.price(n) return n * M.tax end; return M"
                case "shop.tax": return "return 2"
                case "broken": return "return +"
                case "refused": throw Refusal()
                default: return nil
                }
            }
        } _: { runtime throws in
            #expect(try everywhere("return require('shop').price(4)", in: runtime) == [[8], [8]])
            // A module's function is the worker's own one.
            let operation = try #require(
                try runtime.run(
                    "local shop = require 'shop'; return queue:addOperation(function() return shop == require 'shop', shop.price(1) end)"
                )
                .first?.operation)
            #expect(try runtime.results(of: operation) == [true, 2])
            #expect(try runtime.run("return package.path, package.cpath") == ["", ""])
            for (module, message) in [
                ("broken", "broken:1: unexpected symbol near '+'"), ("refused", "not today"), ("absent", "no module 'absent' of the host"),
            ] {
                let error = #expect(throws: LuaError.self) { try runtime.run("require '\(module)'") }
                #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
            }
        }
        #expect(asked.withLock { $0.filter { $0 == "shop" }.count } >= 2)
    }

    @Test func thePreludeRunsInEachState() throws {
        try withConfiguration {
            $0.prelude = "function twice(x) return 2 * x end; settings = { depth = 3 }"
        } _: { runtime throws in
            #expect(try everywhere("return twice(4), settings.depth", in: runtime) == [[8, 3], [8, 3]])
            try runtime.register("host") { (x: Int) in x + 1 }
            try runtime.addPrelude("function both(x) return twice(host(x)) end")
            #expect(try everywhere("return both(1)", in: runtime) == [[4], [4]])
        }
    }

    @Test func aPreludeThatFailsIsAnErrorOfTheRuntime() throws {
        var configuration = Runtime.Configuration()
        configuration.prelude = "error 'no'"
        let error = #expect(throws: LuaError.self) { try Runtime(configuration) }
        #expect(error?.message == "prelude:1: no")
        configuration.prelude = "for"
        let syntax = #expect(throws: LuaError.self) { try Runtime(configuration) }
        #expect(syntax?.kind == .syntax(isIncomplete: true))
    }

    @Test func aSeedMakesRandomNumbersRepeat() throws {
        let script = "return math.random(1 << 40), math.random(1 << 40)"
        func withSeed<Result>(_ seed: UInt64?, _ body: (Runtime) throws -> Result) throws -> Result {
            try withConfiguration {
                $0.workerCount = 1
                $0.randomSeed = seed
            } _: {
                try body($0)
            }
        }
        let first = try withSeed(7) { try everywhere(script, in: $0) }
        #expect(try withSeed(7) { try everywhere(script, in: $0) } == first && first[0] != first[1])
        #expect(try withSeed(8) { try everywhere(script, in: $0) } != first)
        // Lua's own seed is made of the time in seconds and the address of the state, so both states must exist at once.
        try withSeed(nil) { one in
            try withSeed(nil) { other in
                let both = (try everywhere(script, in: one), try everywhere(script, in: other))
                #expect(both.0 != both.1)
            }
        }
    }

    @Test func theObserverSeesEveryOperation() throws {
        final class Counter: OperationObserver {
            let finished = Locked(0)
            func operationChanged(_ event: OperationEvent) { if case .finished = event.kind { finished.withLock { $0 += 1 } } }
        }
        let counter = Counter()
        try withConfiguration {
            $0.observer = counter
        } _: { runtime throws in
            try runtime.run("for i = 1, 5 do queue:addOperation(function() end) end")
            _ = try runtime.finish()
        }
        #expect(counter.finished.withLock { $0 } == 5)
    }
}
