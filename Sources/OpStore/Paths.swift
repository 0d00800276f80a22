import Glibc

/// Turns the paths of steps into those of the records.
struct Paths {
    /// The folder that records are relative to: absolute, and without links.
    let base: String
    private let workingDirectory: String
    /// The text that `recorded` puts before a tidy path. Most paths are tidy.
    private let prefix: String

    /// - Parameters:
    ///   - base: The folder that records are relative to.
    ///   - workingDirectory: The folder that relative paths, also `base`, are relative to: absolute, and without links.
    init(base: String, in workingDirectory: String) {
        self.workingDirectory = workingDirectory
        self.base = Self.realAncestor(of: Self.tidy(Self.join(workingDirectory, base)))
        let folder = Self.relative(workingDirectory + "/", to: self.base)
        prefix = folder == "//" ? "/" : folder
    }

    /// The working directory of the process, without links.
    static var workingDirectory: String { real(".") ?? "/" }

    private static func real(_ path: String) -> String? {
        guard let found = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(found) }
        return unsafe String(cString: found)
    }

    /// An absolute path without the links in that part of it which exists.
    private static func realAncestor(of path: String) -> String {
        if let path = real(path) { return path }
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return path }
        return realAncestor(of: String(path[..<slash])) + path[slash...]
    }

    /// The folder of a path, which need not exist.
    static func parent(of path: String) -> String {
        let components = path.split(separator: "/").dropLast()
        return (path.utf8.first == UInt8(ascii: "/") ? "/" : "") + (components.isEmpty ? "." : components.joined(separator: "/"))
    }

    /// Makes a folder, and those above it, as far as they do not exist. The use of the folder reports any failure.
    static func makeFolder(_ folder: String) {
        if folder.isEmpty { return }
        if unsafe mkdir(folder, 0o777) == 0 || errno != ENOENT { return }
        var end = folder.startIndex
        while end != folder.endIndex {
            end = folder[folder.index(after: end)...].firstIndex(of: "/") ?? folder.endIndex
            unsafe mkdir(String(folder[..<end]), 0o777)
        }
    }

    private static func join(_ folder: String, _ path: String) -> String {
        path.utf8.first == UInt8(ascii: "/") ? path : folder + "/" + path
    }

    /// Without "." and empty components. ".." stays: behind a link it leads elsewhere.
    private static func tidy(_ path: String) -> String {
        "/" + path.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
    }

    /// An absolute path.
    func absolute(_ path: String, in directory: String? = nil) -> String {
        let folder = directory.map { Self.join(workingDirectory, $0) } ?? workingDirectory
        return Self.tidy(Self.join(folder, path))
    }

    /// The path relative to the base if it is below the base, and the absolute path otherwise.
    func recorded(_ path: String, in directory: String?) -> String {
        if directory == nil, Self.isTidy(path) { return prefix + path }
        return Self.relative(absolute(path, in: directory), to: base)
    }

    /// The absolute path of one that `recorded` has returned.
    func absolute(recorded path: String) -> String { Self.join(base == "/" ? "" : base, path) }

    private static func relative(_ path: String, to base: String) -> String {
        let prefix = base == "/" ? "/" : base + "/"
        return path.hasPrefix(prefix) ? String(path.dropFirst(prefix.count)) : path
    }

    /// Whether a relative path has no component that is empty or begins with a dot.
    private static func isTidy(_ path: String) -> Bool {
        var path = path
        return path.withUTF8 { utf8 in
            var isAfterSlash = true
            for index in utf8.indices {
                let byte = unsafe utf8[index]
                if isAfterSlash, byte == UInt8(ascii: "/") || byte == UInt8(ascii: ".") { return false }
                isAfterSlash = byte == UInt8(ascii: "/")
            }
            return !isAfterSlash
        }
    }
}
