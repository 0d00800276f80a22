import LuaBindings
import OpEngine
import TestSupport
import Testing

/// A runtime that a function of the host makes while a script of another one calls it.
@Suite struct NestedRuntimeTests {
    /// The runtimes that a test closes, in this order.
    private enum Order: CaseIterable { case innerFirst, outerFirst }

    /// The runtimes of a test. Its scripts have `inside(source)`, which runs a script in the inner runtime, and makes that at the first call.
    private final class Pair: Sendable {
        let outer: Runtime
        private let made = Locked<Runtime?>(nil)
        var inner: Runtime? { made.withLock { $0 } }

        init() throws {
            outer = try Self.make()
            try outer.register("inside") { [self] arguments in
                let inner = try made.withLock { made in
                    if let made { return made }
                    let inner = try Self.make()
                    // The thread that is inside the outer runtime may call it again.
                    try inner.register("outside") { try [self.outer.evaluate($0[0].text ?? "", arguments: Array($0.dropFirst()))] }
                    made = inner
                    return inner
                }
                return try inner.run(arguments[0].text ?? "", arguments: Array(arguments.dropFirst()))
            }
        }

        private static func make() throws -> Runtime {
            var configuration = Runtime.Configuration()
            configuration.workerCount = 2
            configuration.ignoresEnvironment = true
            // Each runtime waits for operations of the other one.
            configuration.hostMayAddOperations = true
            let runtime = try Runtime(configuration)
            try runtime.run("queue = opscript.OperationQueue.new()")
            return runtime
        }

        /// Closes both, and checks that the one that is left works, and that nothing of the other one is left.
        func close(_ order: Order) throws {
            let inner = try #require(inner)
            let (first, second) = order == .innerFirst ? (inner, outer) : (outer, inner)
            #expect(first.close(deadline: .seconds(30)).isEmpty)
            #expect(throws: LuaError.self) { try first.run("return 1") }
            let operation = try second.operation("return queue:addOperation(function() return 6 * 7 end)")
            #expect(try second.results(of: operation) == [42])
            #expect(second.close(deadline: .seconds(30)).isEmpty)
            made.withLock { $0 = nil }
        }
    }

    @Test("Scripts call scripts of the other runtime in turn", arguments: Order.allCases)
    private func nesting(order: Order) throws {
        let pair = try Pair()
        try pair.outer.run("function fromInside(x) return x + 1 end")
        let values = try pair.outer.run(
            "return inside([[local t = outside('{ fromInside((...)) }', 4); name = 'inner'; return t[1], name]]), name")
        #expect(values == [5, nil])
        // The state of the outer runtime is the current one again.
        #expect(
            try pair.outer.run(
                """
                local first = inside 'return queue:addOperation(function() return 1 end)'
                local own = queue:addOperation(function() return 2 end)
                own:waitUntilFinished()
                first:waitUntilFinished()
                return first.result, own.result, inside('return queue.operationCount')
                """) == [1, 2, 0])
        try pair.close(order)
    }

    @Test("A worker makes a runtime, and its operation goes on", arguments: Order.allCases)
    private func onAWorker(order: Order) throws {
        let pair = try Pair()
        let operation = try pair.outer.operation(
            """
            return queue:addOperation(function(op)
              local sum = inside [[
                local all = {}
                for i = 1, 20 do all[i] = queue:addOperation(function() return i end) end
                local sum = 0
                for _, op in ipairs(all) do op:waitUntilFinished() sum = sum + op.result end
                return sum]]
              local told
              local own = opscript.Operation.new(function() return sum end)
              own.completionBlock = function(own) told = own.result end
              opscript.OperationQueue.new():addOperation(own)
              own:waitUntilFinished()
              return sum, told, op == opscript.Operation.current
            end)
            """)
        #expect(try pair.outer.results(of: operation) == [210, 210, true])
        try pair.close(order)
    }

    @Test("Operations of one runtime are waited for in the other, and outlive it", arguments: Order.allCases)
    private func sharedOperations(order: Order) throws {
        let pair = try Pair()
        let values = try pair.outer.run(
            """
            theirs = inside [[ours = queue:addOperation(function() return { 'inner' } end) return ours]]
            -- Added only now: otherwise it could begin before it has the dependency.
            ours = opscript.Operation.new(function() return { 'outer' } end)
            ours:addDependency(theirs)
            queue:addOperation(ours)
            return inside([[
              theirs = ...
              theirs:waitUntilFinished()
              return theirs.result[1], ours.result[1] ]], ours)
            """)
        #expect(values == ["outer", "inner"])
        let (inner, outer) = (try #require(pair.inner), pair.outer)
        let (first, second) = order == .innerFirst ? (inner, outer) : (outer, inner)
        #expect(first.close(deadline: .seconds(30)).isEmpty)
        #expect(try second.run("return theirs.isFinished, theirs.result[1], ours.result[1]").first == true)
        try second.run("theirs, ours = nil collectgarbage() collectgarbage()")
        #expect(second.close(deadline: .seconds(30)).isEmpty)
    }

    @Test("A function of the outer runtime closes the inner one, while an operation of that runs")
    func closingInside() throws {
        let pair = try Pair(), hasBegun = Gate()
        try pair.outer.register("close") { _ in
            hasBegun.wait()
            return [.integer(pair.inner?.close(deadline: .seconds(30)).count ?? -1)]
        }
        try pair.outer.run("inside ''")
        try #require(pair.inner).register("begin") { _ in
            hasBegun.open()
            return []
        }
        let values = try pair.outer.run(
            """
            local op = inside [[return queue:addOperation(function(op) begin() while not op.isCancelled do end return 'seen' end)]]
            local left = close()
            return left, op.isFinished, pcall(inside, 'return 1')
            """)
        #expect(values[0] == 0 && values[1] == true && values[2] == false && values[3].text?.contains("the runtime is closed") == true)
        let own = try pair.outer.operation("return queue:addOperation(function() return 1 end)")
        #expect(try pair.outer.results(of: own) == [1])
        #expect(pair.outer.close(deadline: .seconds(30)).isEmpty)
    }

    @Test("Time limits apply to the runtime that has them")
    func limits() throws {
        let outer = try Runtime()
        defer { #expect(outer.close(deadline: .seconds(30)).isEmpty) }
        try outer.register("endless") { (_: Int) -> String in
            var configuration = Runtime.Configuration()
            configuration.limits.runSeconds = 0.05
            let inner = try Runtime(configuration)
            defer { inner.close() }
            do { try inner.run("while true do end") } catch let error as LuaError { return "\(error.kind)" }
            return "no error"
        }
        // Neither stop is taken for one of the other runtime's, in the main state and on a worker.
        #expect(try outer.run("return endless(1), endless(2)") == ["time", "time"])
        let kinds = try outer.run(
            """
            local queue = opscript.OperationQueue.new()
            local calm = queue:addOperation(function() return endless(1) end)
            local late = queue:addOperation(opscript.Operation.new { timeout = 0.02, main = function() endless(1) while true do end end })
            calm:waitUntilFinished()
            late:waitUntilFinished()
            return calm.result, late.error.kind
            """)
        #expect(kinds == ["time", "timeout"])
    }

    @Test("A runtime that a function makes and drops closes itself")
    func dropping() throws {
        try withRuntime { outer throws in
            try outer.register("drop") { (text: String) -> String in
                let inner = try Runtime()
                return try inner.evaluate(text)
            }
            #expect(
                try outer.run(
                    """
                    local op = queue:addOperation(function() return drop "'on a worker'" end)
                    local here = drop "'in the main state'"
                    op:waitUntilFinished()
                    return here, op.result
                    """) == ["in the main state", "on a worker"])
        }
    }
}
