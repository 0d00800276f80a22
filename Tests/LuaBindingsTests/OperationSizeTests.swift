import CTestSupport
import TestSupport
import Testing

@testable import LuaBindings

/// The memory that operations take.
@Suite struct OperationSizeTests {
    /// The C library's allocator frees larger blocks under a lock that the thread adding operations needs, too.
    @Test func anOperationAndWhatChangesOfItAreBlocksThatNeedNoLock() throws {
        try withRuntime { runtime throws in
            let operation = LuaOperation(try runtime.function("return function() end"))
            #expect(unsafe block_bytes(Unmanaged.passUnretained(operation).toOpaque()) <= 120)
            let state = LuaOperation.OutOfLineState(LuaOperation.Fields(bodies: .empty))
            #expect(unsafe block_bytes(Unmanaged.passUnretained(state).toOpaque()) <= 72)
        }
    }
}
