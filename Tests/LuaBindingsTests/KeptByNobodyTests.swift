import OpPlatform
import TestSupport
import Testing

@testable import LuaBindings
@testable import OpEngine

/// Operations and states release each other in time.
@Suite struct KeptByNobodyTests {
    /// The operation has begun to end and is in the due list of the state that set the block when the host removes the block.
    @Test func oneWhoseBlockIsRemovedAtItsEndIsKeptByNobody() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                queue.isSuspended = true
                local op = Operation.new(function() end)
                op.completionBlock = function() error 'runs' end
                return queue:addOperation(op)
                """)
            let removed = Gate()
            operation.whenFinished { [unowned operation] in
                operation.completionBlock = nil
                removed.open()
            }
            operation.queue?.isSuspended = false
            removed.wait()
            // The state has not run since.
            #expect(try runtime.inside { $0.due.isEmpty })
        }
    }

    /// After its block was removed, a state may set another one before the operation leaves the list.
    @Test func oneThatHasAnotherBlockByThenStaysDue() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                ran = 0
                queue.isSuspended = true
                local op = Operation.new(function() end)
                op.completionBlock = function() ran = ran + 1 end
                return queue:addOperation(op)
                """)
            let mine = try #require(operation as? LuaOperation)
            mine.enqueueDue()
            mine.removeDue(at: .home)
            #expect(try !runtime.inside { $0.due.isEmpty })
            operation.queue?.isSuspended = false
            _ = try runtime.finish()
            #expect(try runtime.run("return ran") == [1])
        }
    }

    @Test func aWaitThatEndsBeforeTheOperationLeavesNothingOnIt() throws {
        try withRuntime { runtime throws in
            let operation = try runtime.operation(
                """
                queue.isSuspended = true
                local op = queue:addOperation(function() end)
                for i = 1, 100 do assert(not op:waitUntilFinished(0.0001)) end
                return op
                """)
            #expect(operation.lock.withLock { operation.rareExtras?.finishHandlers.count ?? 0 } == 0)
            operation.queue?.isSuspended = false
        }
    }

    @Test func aClosedRuntimeKeepsNoFunctionThatItRefuses() throws {
        let runtime = try Runtime()
        runtime.close()
        weak var token: Log<Void>?
        do {
            let captured = Log<Void>()
            token = captured
            #expect(throws: LuaError.self) {
                try runtime.register("f") { _ in
                    _ = captured.count
                    return []
                }
            }
        }
        #expect(token == nil)
    }
}
