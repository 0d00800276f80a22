import Glibc

/// A file that is written from start to end through a buffer.
///
/// The format may require a closing text. `flush` writes it after each part, and the next part overwrites it. The file is therefore valid at
/// any time, even if the process is killed. A file that cannot be written at a position, such as a pipe, gets the closing text at the end.
/// The output may also be kept in memory.
@safe final class OutputFile {
    // Safety: `count` is at most the buffer's capacity, and the buffer lives as long as this object.
    private static let capacity = 1 << 18

    let path: String
    let descriptor: Int32
    private let closing: StaticString
    let isSeekable: Bool
    private let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
    private var count = 0
    private var position: off_t = 0
    /// The error number of the first write that failed. Nothing is written after it.
    private(set) var failure: Int32?

    /// Creates or empties the file.
    ///
    /// - Throws: an error that names the option, the file and the reason.
    init(_ path: String, for option: String, closing: StaticString = "") throws(RecordingError) {
        self.path = path
        self.closing = closing
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else {
            throw RecordingError(message: "\(option): cannot write '\(path)': \(unsafe String(cString: strerror(errno)))")
        }
        isSeekable = lseek(descriptor, 0, SEEK_CUR) == 0
    }

    /// Writes to an empty file that is open. `path` is its name in messages.
    init(descriptor: Int32, path: String) {
        (self.descriptor, self.path, closing) = (descriptor, path, "")
        isSeekable = lseek(descriptor, 0, SEEK_CUR) == 0
    }

    /// Keeps the output in memory, as `bytes`.
    init() { (descriptor, path, closing, isSeekable) = (-1, "", "", false) }

    deinit { unsafe buffer.deallocate() }

    /// The output that was flushed to memory.
    private(set) var bytes: [UInt8] = []

    // MARK: Appending

    @inline(__always)
    func append(_ text: StaticString) {
        unsafe append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    func append(_ byte: UInt8) {
        if count == OutputFile.capacity { flush() }
        unsafe buffer[count] = byte
        count += 1
    }

    /// Appends text as it is.
    func append(verbatim text: String) {
        var text = text
        text.withUTF8 { unsafe append($0) }
    }

    @inline(__always)
    private func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let start = bytes.baseAddress else { return }
        if bytes.count > OutputFile.capacity - count { return unsafe appendInParts(bytes, start) }
        // Safety: the bytes fit into the rest of the buffer.
        unsafe (buffer + count).update(from: start, count: bytes.count)
        count += bytes.count
    }

    @inline(never)
    private func appendInParts(_ bytes: UnsafeBufferPointer<UInt8>, _ start: UnsafePointer<UInt8>) {
        var done = 0
        while done < bytes.count {
            if count == OutputFile.capacity { flush() }
            let part = min(bytes.count - done, OutputFile.capacity - count)
            // Safety: both ranges are inside their buffers.
            unsafe (buffer + count).update(from: start + done, count: part)
            count += part
            done += part
        }
    }

    func append(_ number: some FixedWidthInteger) {
        if number < 0 { append(UInt8(ascii: "-")) }
        append(digits: UInt64(number.magnitude), atLeast: 1)
    }

    /// Appends nanoseconds as microseconds with three decimals.
    func append(microseconds nanoseconds: UInt64) {
        append(digits: nanoseconds / 1000, atLeast: 1)
        append(UInt8(ascii: "."))
        append(digits: nanoseconds % 1000, atLeast: 3)
    }

    private func append(digits number: UInt64, atLeast minimum: Int) {
        if count + 20 > OutputFile.capacity { flush() }
        var length = 1
        var limit: UInt64 = 10
        // The largest numbers have 20 digits.
        while length < 20, number >= limit {
            length += 1
            limit &*= 10
        }
        length = max(length, minimum)
        var rest = number
        var index = count + length
        // Each pair of digits needs only one long division, by 100. The divisions of a pair by 10 are short.
        while index > count + 1 {
            let pair = UInt8(truncatingIfNeeded: rest % 100)
            rest /= 100
            index -= 2
            unsafe buffer[index] = UInt8(ascii: "0") + pair / 10
            unsafe buffer[index + 1] = UInt8(ascii: "0") + pair % 10
        }
        if index > count { unsafe buffer[count] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10) }
        count += length
    }

    /// Appends a JSON string.
    func append(json text: String) { append(JSONText(text)) }

    /// Appends a JSON string.
    func append(_ text: JSONText) {
        append(UInt8(ascii: "\""))
        append(verbatim: text.escaped)
        append(UInt8(ascii: "\""))
    }

    // MARK: Writing

    /// Writes the contents of the buffer.
    func flush() {
        if descriptor < 0 {
            unsafe bytes.append(contentsOf: UnsafeBufferPointer(start: buffer, count: count))
            count = 0
            return
        }
        // The file has its closing text already.
        if count == 0 && position > 0 { return }
        var done = 0
        while done < count, failure == nil { done += unsafe write(buffer + done, count - done, at: position + off_t(done)) }
        position += off_t(count)
        count = 0
        if isSeekable { writeClosing() }
    }

    /// Writes the rest and closes the file.
    func close() {
        flush()
        if !isSeekable { writeClosing() }
        if Glibc.close(descriptor) != 0 && failure == nil { failure = errno }
    }

    private func writeClosing() {
        guard closing.utf8CodeUnitCount > 0, failure == nil else { return }
        unsafe _ = write(closing.utf8Start, closing.utf8CodeUnitCount, at: position)
    }

    /// Returns how many bytes were written.
    private func write(_ start: UnsafeRawPointer, _ count: Int, at position: off_t) -> Int {
        let written = unsafe isSeekable ? pwrite(descriptor, start, count, position) : Glibc.write(descriptor, start, count)
        if written < 0 && errno != EINTR { failure = errno }
        return max(0, written)
    }
}
