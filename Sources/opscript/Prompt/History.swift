import CTerminal
import Glibc
import Reports

/// The lines that were typed at prompts, in a file that all prompts share.
///
/// Each line is appended as soon as it has been typed, with the file's lock held, so that several prompts lose nothing.
struct History {
    /// The maximum number of lines that a prompt offers. The file holds at most twice as many.
    static let limit = 1000

    private let path: String?
    private var last = ""

    /// Uses `$XDG_STATE_HOME/opscript/history`, or else `~/.local/state/opscript/history`. Without either, or without the right to write
    /// there, the history lasts as long as the prompt.
    init() {
        path = Self.directory.flatMap { Self.make(directory: $0) ? $0 + "/history" : nil }
    }

    private static var directory: String? {
        func absolutePath(_ variable: String) -> String? { Environment.value(variable).flatMap { $0.hasPrefix("/") ? $0 : nil } }
        return (absolutePath("XDG_STATE_HOME") ?? absolutePath("HOME").map { $0 + "/.local/state" }).map { $0 + "/opscript" }
    }

    /// Creates a directory and its parents. Returns whether it exists.
    private static func make(directory: String) -> Bool {
        if unsafe mkdir(directory, 0o700) == 0 || errno == EEXIST { return true }
        guard errno == ENOENT, let slash = directory.lastIndex(of: "/"), slash != directory.startIndex else { return false }
        return make(directory: String(directory[..<slash])) && (unsafe mkdir(directory, 0o700) == 0 || errno == EEXIST)
    }

    /// The latest lines, oldest first. Shortens the file if it has grown too long.
    func lines() -> [String] {
        withFile { file in
            let lines = Self.contents(of: file).split(separator: "\n").map(String.init)
            let latest = Array(lines.suffix(Self.limit))
            if lines.count > 2 * Self.limit {
                ftruncate(file, 0)
                lseek(file, 0, SEEK_SET)
                Self.write(latest.map { $0 + "\n" }.joined(), to: file)
            }
            return latest
        } ?? []
    }

    /// Appends a line, unless it is empty, repeats the line before, or begins with a space. Returns false for such a line.
    mutating func add(_ line: String) -> Bool {
        guard !line.isEmpty, !line.hasPrefix(" "), line != last else { return false }
        last = line
        _ = withFile { file in
            lseek(file, 0, SEEK_END)
            Self.write(line + "\n", to: file)
        }
        return true
    }

    private func withFile<Result>(_ body: (Int32) -> Result) -> Result? {
        guard let path else { return nil }
        let file = unsafe ct_open_locked(path)
        guard file >= 0 else { return nil }
        defer { close(file) }
        return body(file)
    }

    private static func contents(of file: Int32) -> String {
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(file, $0.baseAddress, $0.count) }
            if count <= 0 { return String(decoding: all, as: UTF8.self) }
            all += buffer.prefix(count)
        }
    }

    private static func write(_ text: String, to file: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(file, $0.baseAddress, $0.count) }
            if count <= 0 { return }
            bytes = bytes.dropFirst(count)
        }
    }
}
