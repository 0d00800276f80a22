import Glibc

/// Bytes with a zero after them, which C may read as long as this object lives.
final class CText: Sendable {
    // Safety: no code writes to it after `init`.
    nonisolated(unsafe) let bytes: UnsafeMutablePointer<CChar>
    let count: Int

    init(_ content: some Collection<UInt8>) {
        count = content.count
        bytes = .allocate(capacity: count + 1)
        UnsafeMutableRawBufferPointer(start: bytes, count: count).copyBytes(from: content)
        bytes[count] = 0
    }

    /// Shows each zero in the text as `\0`, because C would stop reading there.
    convenience init(shown text: String) {
        self.init(
            Array(
                text.utf8.contains(0)
                    ? text.split(separator: "\0", omittingEmptySubsequences: false).joined(separator: "\\0").utf8 : text.utf8))
    }

    deinit { bytes.deallocate() }
}

/// The bytes of an argument with a length.
func bytes(_ start: UnsafePointer<CChar>?, _ length: Int, _ what: String) throws -> UnsafeRawBufferPointer {
    guard let start else {
        if length == 0 { return UnsafeRawBufferPointer(start: nil, count: 0) }
        throw Misuse("\(what) is NULL")
    }
    // The header's OPSCRIPT_TEXT is the greatest size_t, which is -1 here.
    let count = length == -1 ? strlen(start) : length
    guard count >= 0 else { throw Misuse("the length of \(what) is more than there can be: \(UInt(bitPattern: length))") }
    return UnsafeRawBufferPointer(start: start, count: count)
}

/// The text of an argument with a length.
func text(_ start: UnsafePointer<CChar>?, _ length: Int, _ what: String) throws -> String {
    if start == nil { throw Misuse("\(what) is NULL") }
    guard let text = String(validating: try bytes(start, length, what), as: UTF8.self) else { throw Misuse("\(what) is not UTF-8") }
    return text
}

/// The text of an argument that ends with a zero.
func text(_ start: UnsafePointer<CChar>?, _ what: String) throws -> String { try text(start, -1, what) }

/// A text that the caller in C frees with `opscript_string_free`.
func duplicate(_ text: String?) -> UnsafeMutablePointer<CChar>? { text.flatMap { strdup($0) } }

/// Frees a text.
@_cdecl("opscript_string_free")
public func freeString(_ string: UnsafeMutablePointer<CChar>?) { free(string) }
