import CLua
import Glibc

/// The results of a body, and the values that the body has stored in its operation, as the store keeps them.
struct StoredResults {
    /// The reason why the values cannot be kept; nil if they can.
    private(set) var refusal: String?
    /// The results, and the values by name. A nil removes a stored value.
    private(set) var results: [UInt8] = []
    private(set) var values: [(name: String, bytes: [UInt8]?)] = []

    /// The meanings of the first byte.
    private static let refused: UInt8 = 0, kept: UInt8 = 1

    /// Encodes the results of a body, and the values that the body has stored.
    ///
    /// - Parameters:
    ///   - before: the values that were stored in the operation before the body began.
    ///   - after: the values that are stored in the operation now.
    init(_ results: Parcel, from before: [String: Parcel], to after: [String: Parcel]) {
        self.results = encode(results, "its results contain")
        for name in Set(before.keys).union(after.keys).sorted() {
            guard let value = after[name] else {
                values.append((name, nil))
                continue
            }
            if let old = before[name], unsafe old.pointer == value.pointer { continue }
            values.append((name, encode(value, "'\(name)', which it has stored in itself, contains")))
        }
    }

    private mutating func encode(_ parcel: Parcel, _ what: String) -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0
        defer { unsafe free(bytes) }
        if let refused = unsafe clua_stored_write(parcel.pointer, &bytes, &count) {
            let part = unsafe String(cString: refused)
            refusal = part.isEmpty ? "there is no memory for its results" : "\(what) \(part), which cannot be stored"
            return []
        }
        withExtendedLifetime(parcel) {}
        return unsafe [UInt8](UnsafeBufferPointer(start: bytes, count: count))
    }

    // MARK: bytes

    /// The values to store.
    var bytes: [UInt8] {
        if let refusal { return [Self.refused] + refusal.utf8 }
        var bytes = [Self.kept]
        bytes.append(counted: results)
        for (name, value) in values {
            bytes.append(counted: Array(name.utf8))
            bytes.append(value == nil ? 0 : 1)
            if let value { bytes.append(counted: value) }
        }
        return bytes
    }

    /// Reads bytes that were stored; nil if they are damaged.
    init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        switch rest.popFirst() {
        case Self.refused: refusal = String(decoding: rest, as: UTF8.self)
        case Self.kept:
            guard let results = rest.takeCounted() else { return nil }
            self.results = Array(results)
            while !rest.isEmpty {
                guard let name = rest.takeCounted(), let isThere = rest.popFirst() else { return nil }
                var value: [UInt8]?
                if isThere != 0 {
                    guard let taken = rest.takeCounted() else { return nil }
                    value = Array(taken)
                }
                values.append((String(decoding: name, as: UTF8.self), value))
            }
        default: return nil
        }
    }

    /// The parcel in bytes that were stored; nil if they are damaged, or memory has run out. The caller owns it.
    static func parcel(in bytes: [UInt8]) -> clua_parcel? {
        var parcel = unsafe clua_parcel()
        let isRead = unsafe bytes.withUnsafeBufferPointer { unsafe clua_stored_read($0.baseAddress, $0.count, &parcel) }
        return unsafe isRead ? parcel : nil
    }
}

extension [UInt8] {
    fileprivate mutating func append(counted bytes: [UInt8]) {
        unsafe Swift.withUnsafeBytes(of: UInt64(bytes.count).littleEndian) { unsafe append(contentsOf: $0) }
        append(contentsOf: bytes)
    }
}

extension ArraySlice<UInt8> {
    fileprivate mutating func takeCounted() -> ArraySlice<UInt8>? {
        guard count >= 8 else { return nil }
        let size = prefix(8).reversed().reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        removeFirst(8)
        guard size <= UInt64(count) else { return nil }
        defer { removeFirst(Int(size)) }
        return prefix(Int(size))
    }
}
