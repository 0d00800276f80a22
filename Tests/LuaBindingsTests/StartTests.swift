import OpEngine
import TestSupport
import Testing

@testable import LuaBindings

/// Work that a start leaves out, so that a short script takes little time.
@Suite struct StartTests {
    @Test func nothingOfAScriptWithoutOperationsMustBeStopped() throws {
        try withRuntime { runtime in
            #expect(!runtime.core.mayHaveCallbacks)
            let operation = try runtime.operation("return queue:addOperation(function() end)")
            _ = try runtime.results(of: operation)
            #expect(runtime.core.mayHaveCallbacks)
        }
    }

    @Test func anOperationThatHasNotStartedMayStillMakeAState() throws {
        try withRuntime { runtime in
            _ = try runtime.operation("queue.isSuspended = true return queue:addOperation(function() end)")
            #expect(runtime.core.mayHaveCallbacks)
        }
    }
}
