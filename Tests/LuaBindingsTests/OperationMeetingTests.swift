import LuaBindings
import OpEngine
import TestSupport
import Testing

/// Operations of Swift in scripts, and those of scripts in Swift.
@Suite struct OperationMeetingTests {
    private struct Refusal: Error, CustomStringConvertible { let description = "refused" }

    private final class Download: Operation, @unchecked Sendable {
        // Safety: `@unchecked Sendable` because `gate` is constant and safe from every thread.
        let gate = Gate()
        override func main() { gate.wait() }
    }

    @Test func aScriptDependsOnObservesAndAddsOperationsOfSwift() throws {
        try withRuntime { runtime throws in
            let download = Download()
            download.name = "download"
            let values = try runtime.run(
                """
                local download = ...
                after = queue:addOperation(function() return download.isFinished, download.name end)
                """, arguments: [.operation(download)])
            #expect(values.isEmpty)
            try runtime.run(
                """
                local download = ...
                after = Operation.new { dependencies = { download }, main = function() return download.isFinished, download.name end }
                seen = 0
                download:observe('isFinished', function() seen = seen + 1 end)
                queue:addOperation(after)
                queue:addOperation(download)
                """, arguments: [.operation(download)])
            download.gate.open()
            let after = try #require(try runtime.global("after").operation)
            #expect(after.dependencies == [download])
            #expect(try runtime.results(of: after) == [true, "download"])
            _ = try runtime.finish()
            #expect(try runtime.global("seen") == 1)
        }
    }

    @Test func theErrorOfAnOperationOfSwiftIsOneInLua() throws {
        try withRuntime { runtime throws in
            let operation = BlockOperation { throw Refusal() }
            operation.name = "block"
            let values = try runtime.run(
                """
                local o = ...
                queue:addOperation(o)
                o:waitUntilFinished()
                return o.error.message, o.error.kind, o.error.operation == o, o.result
                """, arguments: [.operation(operation)])
            #expect(values == ["refused", "error", true, nil])
        }
    }

    @Test func swiftDependsOnObservesAndCompletesOperationsOfScripts() throws {
        try withRuntime { runtime throws in
            let first = try runtime.operation("return Operation.new(function() return 6 * 7 end)")
            let (isDone, wasObserved) = (Gate(), Gate())
            first.completionBlock = { isDone.open() }
            let observation = first.observe(\.isFinished) { _, _ in wasObserved.open() }
            let second = BlockOperation {}
            second.addDependency(first)
            let queue = OperationQueue(engine: runtime.engine)
            queue.addOperations([second, first], waitUntilFinished: true)
            isDone.wait()
            wasObserved.wait()
            observation.invalidate()
            #expect(try runtime.results(of: first) == [42])
        }
    }

    @Test func functionsTakeAndReturnOperations() throws {
        try withRuntime { runtime throws in
            try runtime.register("rename") { (operation: Operation, name: String) in
                operation.name = name
                return operation
            }
            try runtime.register("only") { (_: Download) in true }
            try runtime.register("busy") { (queue: OperationQueue, all: [Operation]) in queue.name ?? "" + "\(all.count)" }
            #expect(
                try runtime.run("local o = Operation.new(); return rename(o, 'x') == o, o.name, busy(queue, { o })") == [true, "x", "test"])
            let error = #expect(throws: LuaError.self) { try runtime.run("only(Operation.new())") }
            #expect(error?.message.contains("expected a Download, found a LuaOperation") == true)
        }
    }

    @Test func resultsAreAwaitedAsSwiftValues() throws {
        try withRuntime { runtime throws in
            let count = try runtime.function(
                """
                return function(op, text)
                  local words = {}
                  for word in text:gmatch '%a+' do words[word] = (words[word] or 0) + 1 end
                  return words, 'more'
                end
                """)
            let queue = OperationQueue(engine: runtime.engine)
            runTask {
                let operation = LuaOperation(count, arguments: ["a b a"])
                queue.addOperation(operation)
                let words: [String: Int] = try await operation.value()
                #expect(words == ["a": 2, "b": 1])
                #expect(try await operation.values() == [["a": 2, "b": 1], "more"])
                let unfit = await #expect(throws: LuaError.self) { try await operation.value(as: [String: Bool].self) }
                #expect(unfit?.message.contains(": expected a boolean, found ") == true)

                let failing = LuaOperation(count)
                queue.addOperation(failing)
                let failure = await #expect(throws: OperationFailure.self) { try await failing.value(as: LuaValue.self) }
                #expect(failure?.message.contains("attempt to index a nil value") == true)

                let plain = BlockOperation {}
                queue.addOperation(plain)
                #expect(try await plain.value(as: Int?.self) == nil)

                let cancelled = LuaOperation(count, arguments: ["x"])
                cancelled.cancel()
                queue.addOperation(cancelled)
                await #expect(throws: CancellationError.self) { try await cancelled.value(as: LuaValue.self) }
            }
        }
    }

    @Test func resultsOfAClosedRuntimeAreAnError() throws {
        let operation = try withRuntime { runtime throws in
            let operation = try runtime.operation("return queue:addOperation(function() return { 1 } end)")
            _ = try runtime.results(of: operation)
            return operation
        }
        runTask {
            let error = await #expect(throws: LuaError.self) { try await operation.values() }
            #expect(error?.message.hasPrefix("the runtime was closed before the results of") == true)
        }
    }
}
