import CLua
import OpCluster
@_spi(Locking) import OpEngine

/// A frozen value of Lua, which is kept as long as this.
@safe
final class FrozenValue: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because frozen values do not change, and their counts are atomic.

    let table: OpaquePointer

    init(retaining table: OpaquePointer) {
        unsafe clua_wire_retain_frozen(table)
        unsafe self.table = table
    }

    /// Reads what `clua_wire_write_frozen` has written. Nil for other bytes, and if memory has run out.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        guard let table = unsafe clua_wire_read_frozen(start, bytes.count) else { return nil }
        unsafe self.table = table
    }

    deinit { unsafe clua_wire_release_frozen(table) }

    /// The table, for somebody else to release.
    func retained() -> OpaquePointer? {
        unsafe clua_wire_retain_frozen(table)
        return unsafe table
    }
}

/// The large frozen values that were sent last, as they travel: each is written once, however many operations have it.
final class FrozenBlobs: Sendable {
    private static let most = 8
    private let sent = Guarded<[(value: FrozenValue, blob: Blob)]>([])

    func blob(of value: FrozenValue) -> Blob? {
        sent.withLock { sent in sent.first { unsafe $0.value.table == value.table }?.blob }
    }

    func keep(_ blob: Blob, of value: FrozenValue) {
        let dropped = sent.withLock { sent in
            sent.append((value, blob))
            return sent.count > Self.most ? sent.removeFirst() : nil
        }
        withExtendedLifetime(dropped) {}
    }
}
