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

    /// Whether no state and no parcel has the value now.
    var isLeft: Bool { unsafe !clua_wire_frozen_is_shared(table) }

    /// The table, for somebody else to release.
    func retained() -> OpaquePointer? {
        unsafe clua_wire_retain_frozen(table)
        return unsafe table
    }
}

/// The large frozen values that have come and gone last, as values and as bytes. So each is written or made once, however many operations have it, and
/// one that comes back is the one that has gone.
final class FrozenValues: Sendable {
    private typealias Known = (value: FrozenValue, blob: Blob)

    private static let most = 8
    /// The one that was used last is the last one.
    private let known = Guarded<[Known]>([])

    /// The bytes of a value.
    func blob(of value: FrozenValue) -> Blob? { known.withLock { Self.use(&$0) { unsafe $0.value.table == value.table } }?.blob }

    /// The value that has these bytes; nil if they are wrong.
    func value(of blob: Blob) -> FrozenValue? {
        var dropped: [Known] = []
        // Others wait for it, rather than make it, too.
        let value = known.withLock { known -> FrozenValue? in
            if let found = Self.use(&known, where: { $0.blob.name == blob.name }) { return found.value }
            guard let made = unsafe FrozenValue(blob.bytes) else { return nil }
            dropped = Self.add((made, blob), to: &known)
            return made
        }
        withExtendedLifetime(dropped) {}
        return value
    }

    /// Keeps a value that was written.
    func keep(_ blob: Blob, of value: FrozenValue) {
        let dropped = known.withLock { known in
            // An equal one that was frozen before is less likely to be needed again.
            let equal = known.filter { $0.blob.name == blob.name }
            known.removeAll { $0.blob.name == blob.name }
            return equal + Self.add((value, blob), to: &known)
        }
        withExtendedLifetime(dropped) {}
    }

    private static func use(_ known: inout [Known], where matches: (Known) -> Bool) -> Known? {
        guard let index = known.firstIndex(where: matches) else { return nil }
        let found = known.remove(at: index)
        known.append(found)
        return found
    }

    /// Returns those that are no longer kept. Releasing them may take its time.
    private static func add(_ new: Known, to known: inout [Known]) -> [Known] {
        var dropped = known.filter(\.value.isLeft)
        known.removeAll { entry in dropped.contains { $0.value === entry.value } }
        if known.count == most { dropped.append(known.removeFirst()) }
        known.append(new)
        return dropped
    }
}
