internal import CStore

extension Record.Value {
    /// Compressing a shorter value is not worth the time.
    private static let shortestCompressed = 512

    /// The value's description, and the bytes to store.
    static func encode(_ value: UnsafeRawBufferPointer) -> (Record.Value, [UInt8]) {
        let compressed = value.count < shortestCompressed ? nil : unsafe compress(value)
        let stored = unsafe compressed ?? [UInt8](value)
        let digest = unsafe stored.withUnsafeBytes { unsafe Hasher128.hash($0) }
        return (Record.Value(digest: digest, count: value.count, isCompressed: compressed != nil), stored)
    }

    /// The compressed value; nil if it is not shorter.
    private static func compress(_ value: UnsafeRawBufferPointer) -> [UInt8]? {
        let compressed = unsafe [UInt8](unsafeUninitializedCapacity: ZSTD_compressBound(value.count)) { buffer, count in
            let size = unsafe ZSTD_compress(buffer.baseAddress, buffer.count, value.baseAddress, value.count, 1)
            count = ZSTD_isError(size) != 0 ? 0 : size
        }
        return compressed.isEmpty || compressed.count >= value.count ? nil : compressed
    }

    /// The value from the bytes that were stored.
    func decoded(_ stored: UnsafeRawBufferPointer) throws(SQLiteError) -> [UInt8] {
        let damage = SQLiteError(code: SQLITE_CORRUPT, message: "a value is not what was written")
        guard unsafe digest == Hasher128.hash(stored) else { throw damage }
        if !isCompressed { return unsafe [UInt8](stored) }
        let value = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, size in
            let result = unsafe ZSTD_decompress(buffer.baseAddress, buffer.count, stored.baseAddress, stored.count)
            size = ZSTD_isError(result) != 0 ? 0 : result
        }
        guard value.count == count else { throw damage }
        return value
    }
}
