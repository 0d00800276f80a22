import CLua
import Glibc

/// The results of a body as the store keeps them.
enum StoredResults {
    case results(Bytes)
    /// They cannot be stored, and why.
    case none(String)

    struct Bytes {
        let bytes: [UInt8]

        /// Nil if the bytes are damaged, or memory has run out.
        var decoded: ReturnedValues? {
            var parcel = unsafe clua_parcel()
            let isRead = unsafe bytes.withUnsafeBufferPointer { unsafe clua_stored_read($0.baseAddress, $0.count, &parcel) }
            return unsafe isRead ? ReturnedValues(taking: &parcel) : nil
        }
    }

    /// What precedes the reason in place of results.
    private static let mark: UInt8 = 0

    /// Reads what was stored.
    init(_ value: [UInt8]?) {
        let bytes = value ?? []
        self = bytes.first == Self.mark ? .none(String(decoding: bytes.dropFirst(), as: UTF8.self)) : .results(Bytes(bytes: bytes))
    }

    /// Encodes results.
    init(encoding parcel: Parcel) {
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0
        if let refused = unsafe clua_stored_write(parcel.pointer, &bytes, &count) {
            let what = unsafe String(cString: refused)
            self = .none(what.isEmpty ? "there is no memory for its results" : "its results contain \(what), which cannot be stored")
        } else {
            self = .results(Bytes(bytes: unsafe [UInt8](UnsafeBufferPointer(start: bytes, count: count))))
        }
        unsafe free(bytes)
        withExtendedLifetime(parcel) {}
    }

    /// What to store.
    var bytes: [UInt8] {
        switch self {
        case .results(let results): results.bytes
        case .none(let why): [Self.mark] + why.utf8
        }
    }
}
