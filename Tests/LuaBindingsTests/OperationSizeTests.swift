import CTestSupport
import TestSupport
import Testing

@testable import LuaBindings

/// The memory that operations take.
@Suite struct OperationSizeTests {
    /// The C library's allocator frees larger blocks under a lock that the thread adding operations needs, too.
    @Test func anOperationAndWhatChangesOfItAreBlocksThatNeedNoLock() throws {
        try withRuntime { runtime throws in
            let operations = try (0..<32).map { _ in LuaOperation(try runtime.function("return function() end")) }
            #expect(Self.bytes(of: operations) <= 120)
            #expect(Self.bytes(of: (0..<32).map { _ in LuaOperation.OutOfLineState(LuaOperation.Fields(bodies: .empty)) }) <= 72)
        }
    }

    /// The bytes that an object of a kind takes. The allocator gives a single one a few bytes more if a free block is only that much larger.
    private static func bytes(of objects: [AnyObject]) -> Int {
        objects.map { unsafe block_bytes(Unmanaged.passUnretained($0).toOpaque()) }.min()!
    }
}
