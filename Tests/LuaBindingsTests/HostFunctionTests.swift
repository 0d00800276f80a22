import OpEngine
import TestSupport
import Testing

@testable import LuaBindings

@Suite struct HostFunctionTests {
    private struct Refusal: Error, CustomStringConvertible { let description = "the host refuses" }

    @Test func theMainStateAndWorkersCallIt() throws {
        try withRuntime { runtime throws in
            try runtime.register("add") { arguments in [.integer(arguments.reduce(0) { $0 + ($1.integer ?? 0) }), "done"] }
            #expect(try runtime.run("return add(1, 2, 3)") == [6, "done"])
            let operation = try runtime.operation("return queue:addOperation(function() return add(4, 5) end)")
            #expect(try runtime.results(of: operation) == [9, "done"])
            let held = try runtime.operation("local add = add; return queue:addOperation(function() return (add(1)) end)")
            #expect(try runtime.results(of: held) == [1])
        }
    }

    @Test func whatItThrowsIsAnErrorWithThePositionOfTheCall() throws {
        try withRuntime { runtime throws in
            try runtime.register("refuse") { _ in throw Refusal() }
            #expect(try runtime.run("return pcall(refuse)") == [false, "the host refuses"])
            #expect(try runtime.run("return select(2, pcall(function()\n refuse() end))", name: "@a.lua") == ["a.lua:2: the host refuses"])
            let operation = try runtime.operation("return queue:addOperation(function() refuse() end)")
            let failure = #expect(throws: OperationFailure.self) { try runtime.results(of: operation) }
            #expect(failure?.message == "script:1: the host refuses")
        }
    }

    @Test func oneRegisteredLaterReachesWorkersThatExist() throws {
        try withRuntime(workers: 1) { runtime throws in
            for number in 1...5 {
                try runtime.register("f\(number)") { _ in [.integer(number)] }
                let operation = try runtime.operation("return queue:addOperation(function() return f\(number)() end)")
                #expect(try runtime.results(of: operation) == [.integer(number)])
            }
        }
    }

    @Test func manyWorkersCallItAtOnce() throws {
        try withRuntime(workers: 4) { runtime throws in
            let calls = Locked(0)
            let (arrived, go) = (Gate(), Gate())
            try runtime.register("meet") { _ in
                arrived.open()
                go.wait()
                return []
            }
            try runtime.register("count") { arguments in
                calls.withLock { $0 += 1 }
                return arguments
            }
            try runtime.run(
                "for i = 1, 4 do queue:addOperation(function() meet() for j = 1, 2000 do assert(count(j, { j }) == j) end end) end")
            arrived.wait(4)
            go.open(4)
            #expect(try runtime.finish().unreadFailures.isEmpty)
            #expect(calls.withLock { $0 } == 8000)
        }
    }

    @Test func itMayBeCalledFromACoroutine() throws {
        try withRuntime { runtime throws in
            try runtime.register("echo") { $0 }
            let operation = try runtime.operation(
                """
                return queue:addOperation(function()
                    local co = coroutine.wrap(function() coroutine.yield(echo 'a') return echo { 'b' } end)
                    return co(), co()[1]
                end)
                """)
            #expect(try runtime.results(of: operation) == ["a", "b"])
        }
    }

    @Test func closingTheRuntimeReleasesWhatItHolds() throws {
        final class Token: Sendable {}
        weak var token: Token?
        weak var core: RuntimeCore?
        try withRuntime { runtime throws in
            let held = Token()
            let runtimeCore = try #require(try runtime.operation("return Operation.new()") as? LuaOperation).core
            (token, core) = (held, runtimeCore)
            try runtime.register("hold") { _ in [.boolean(runtimeCore.isClosing), .string("\(held)")] }
            #expect(try runtime.run("return (hold())") == [false])
        }
        #expect(token == nil && core == nil)
    }

    @Test func aFinalizerCallsItWhileTheRuntimeCloses() throws {
        let calls = Locked(0)
        try withRuntime { runtime throws in
            try runtime.register("count") { _ in
                calls.withLock { $0 += 1 }
                return []
            }
            try runtime.run("kept = setmetatable({}, { __gc = function() count() end })")
        }
        #expect(calls.withLock { $0 } == 1)
    }

    @Test func oneThatIsReplacedIsTheNewOne() throws {
        try withRuntime { runtime throws in
            try runtime.register("version") { _ in [1] }
            try runtime.register("version") { _ in [2] }
            #expect(try runtime.run("return version()") == [2])
            #expect(try runtime.results(of: runtime.operation("return queue:addOperation(function() return version() end)")) == [2])
        }
    }
}
