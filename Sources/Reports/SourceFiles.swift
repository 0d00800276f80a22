import Glibc

/// The lines of source files. Reads each file once.
package final class SourceFiles {
    package init() {}

    private var files: [String: [Substring]] = [:]

    /// The lines of a file; none if it cannot be read. Only the first MiB counts.
    package func lines(ofFile path: String) -> [Substring] {
        if let lines = files[path] { return lines }
        let lines = SourceFiles.contents(of: path).map(SourceFiles.lines) ?? []
        files[path] = lines
        return lines
    }

    static func lines(of text: String) -> [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    private static func contents(of path: String) -> String? {
        // Opening a FIFO would wait for a writer.
        var status = stat()
        guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG, let file = unsafe fopen(path, "re") else { return nil }
        defer { unsafe fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe fread($0.baseAddress, 1, $0.count, file) }
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
