import CLua
import OpCluster
import OpEngine
import OpPlatform

/// Keeps a frozen value of Lua.
@safe
final class FrozenValue: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because frozen values do not change, and their counts are atomic.

    let table: OpaquePointer

    init(retaining table: OpaquePointer) {
        unsafe clua_wire_retain_frozen(table)
        unsafe self.table = table
    }

    /// Reads the bytes that `clua_wire_write_frozen` has written. Nil if they are damaged, if the visitor refuses code, or memory has run out.
    init?(_ bytes: UnsafeRawBufferPointer, _ visitor: UnsafePointer<clua_code_visitor>?) {
        let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        guard let table = unsafe clua_wire_read_frozen(start, bytes.count, visitor) else { return nil }
        unsafe self.table = table
    }

    deinit { unsafe clua_wire_release_frozen(table) }

    /// Whether no state and no parcel has the value now.
    var isLeft: Bool { unsafe !clua_wire_frozen_is_shared(table) }

    /// The table, retained for the caller.
    func retained() -> OpaquePointer? {
        unsafe clua_wire_retain_frozen(table)
        return unsafe table
    }
}

/// The large frozen values that were sent or received last, as values and as bytes. So each is written or made once, however many
/// operations have it, and a value that returns is the one that was sent.
final class FrozenValues: Sendable {
    private typealias Known = (value: FrozenValue, blob: Blob)

    private static let most = 8
    /// The value that was used last is at the end.
    private let known = Guarded<[Known]>([])

    /// The bytes of a value.
    func blob(of value: FrozenValue) -> Blob? { known.withLock { Self.use(&$0) { unsafe $0.value.table == value.table } }?.blob }

    /// The value that has these bytes; nil if they are wrong, or if the visitor refuses code.
    func value(of blob: Blob, _ visitor: UnsafePointer<clua_code_visitor>?) -> FrozenValue? {
        var dropped: [Known] = []
        // The lock stays held, so that other threads wait for the value rather than make it, too.
        let value = known.withLock { known -> FrozenValue? in
            if let found = Self.use(&known, where: { $0.blob.name == blob.name }) { return found.value }
            guard let made = unsafe FrozenValue(blob.bytes, visitor) else { return nil }
            dropped = Self.add((made, blob), to: &known)
            return made
        }
        withExtendedLifetime(dropped) {}
        return value
    }

    /// Keeps a value that was written.
    func keep(_ blob: Blob, of value: FrozenValue) {
        let dropped = known.withLock { known in
            // The older one of two equal values is less likely to be sent again.
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

    /// Returns the values that are no longer kept. Releasing them may take long, so the caller does it without the lock.
    private static func add(_ new: Known, to known: inout [Known]) -> [Known] {
        var dropped = known.filter(\.value.isLeft)
        known.removeAll { entry in dropped.contains { $0.value === entry.value } }
        if known.count == most { dropped.append(known.removeFirst()) }
        known.append(new)
        return dropped
    }
}
