import Synchronization

/// The name under which a body writes an output before the output gets its own name.
public enum TemporaryName {
    private static let start = ".opscript-"
    private static let count = Atomic<Int>(0)

    /// A name for `path` that no file has, in the same folder, which this makes. It begins with a dot, so that patterns skip it, and ends as `path` does, because
    /// programs choose a format by the end of a name.
    public static func make(for path: String) -> String {
        let (folder, name) = split(path)
        Paths.makeFolder(String(folder))
        // A number of the process alone may have been that of one which was killed.
        let prefix = "\(start)\(UInt32.random(in: 0 ... .max))-\(count.wrappingAdd(1, ordering: .relaxed).newValue)-"
        // Names of files have at most 255 bytes, and begin with a whole character.
        let end = name.utf8.suffix(255 - prefix.utf8.count).drop { $0 & 0xc0 == 0x80 }
        return String(folder) + prefix + String(decoding: end, as: UTF8.self)
    }

    /// The path for which `make` has made this name, unless it had to shorten it; any other path itself. A compiler names the temporary file
    /// in its depfile.
    static func original(of path: String) -> String {
        let (folder, name) = split(path)
        let parts = name.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, "\(parts[0])-" == start, Int(parts[1]) != nil, Int(parts[2]) != nil else { return path }
        return String(folder + parts[3])
    }

    private static func split(_ path: String) -> (folder: Substring, name: Substring) {
        let end = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { path.utf8.index(after: $0) } ?? path.startIndex
        return (path[..<end], path[end...])
    }
}
