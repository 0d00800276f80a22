import CTestSupport
import TestSupport
import Testing

@testable import LuaBindings

/// What operations weigh.
@Suite struct OperationSizeTests {
    /// The C library's allocator gives larger blocks back under a lock, which the thread that adds operations needs.
    @Test func anOperationAndWhatChangesOfItAreBlocksThatNeedNoLock() throws {
        try withRuntime { runtime throws in
            let operation = LuaOperation(try runtime.function("return function() end"))
            #expect(unsafe block_bytes(Unmanaged.passUnretained(operation).toOpaque()) <= 120)
            #expect(MemoryLayout<LuaOperation.OutOfLineState>.size <= 64)
        }
    }
}
