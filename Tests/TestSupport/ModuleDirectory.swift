import Glibc

/// A directory with Lua modules. It is deleted with this object.
public final class ModuleDirectory {
    /// The path of the directory.
    public let path: String
    private let files: [String]

    /// Creates the directory and writes the modules.
    ///
    /// - Parameter modules: the text of each module, by its name.
    public init(_ modules: [String: String]) throws {
        var template = Array("/tmp/opscript-modules-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw FileError(description: "mkdtemp: errno \(errno)") }
        let path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        self.path = path
        files = modules.keys.map { "\(path)/\($0).lua" }
        for (name, text) in modules {
            guard let file = fopen("\(path)/\(name).lua", "w") else { throw FileError(description: "fopen: errno \(errno)") }
            defer { fclose(file) }
            guard fputs(text, file) >= 0 else { throw FileError(description: "fputs: errno \(errno)") }
        }
    }

    deinit {
        for file in files { unlink(file) }
        rmdir(path)
    }

    /// A chunk that makes a state search the directory for modules.
    public var prelude: String { "package.path = '\(path)/?.lua;' .. package.path" }
}

private struct FileError: Error {
    let description: String
}
