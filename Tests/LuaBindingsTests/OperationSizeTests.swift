import Testing

@testable import LuaBindings

/// What operations weigh.
@Suite struct OperationSizeTests {
    /// The C library's allocator gives larger blocks back under a lock, which the thread that adds operations needs.
    @Test func anOperationAndWhatChangesOfItAreBlocksThatNeedNoLock() {
        #expect(_class_getInstancePositiveExtentSize(LuaOperation.self) <= 120)
        #expect(MemoryLayout<LuaOperation.Variables>.size <= 120)
    }
}
