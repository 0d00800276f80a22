import Glibc

/// The paths of the package, its tests and the command.
enum Paths {
    /// The directory of this package.
    static let package: String = {
        let parts = #filePath.split(separator: "/").dropLast(3)
        return "/" + parts.joined(separator: "/")
    }()

    /// The command under test.
    static let opscript = environment("OPSCRIPT_COMMAND") ?? package + "/.build/release/opscript"

    /// Whether the command has the allocator that `scripts/build` links in. A debug build uses the C library's.
    static let hasJemalloc = !opscript.hasSuffix("/debug/opscript")

    /// The directory of the products of this build, among them the running tests.
    static let products: String = {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlink("/proc/self/exe", &path, path.count)
        let parts = String(decoding: path.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self).split(separator: "/")
        return "/" + parts.dropLast().joined(separator: "/")
    }()

    static let golden = package + "/Tests/OpscriptTests/Golden"

    static func environment(_ name: String) -> String? {
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe String(cString: value)
    }

    /// The bytes of a file; nil when it cannot be read.
    static func read(_ path: String) -> [UInt8]? {
        guard let file = unsafe fopen(path, "rb") else { return nil }
        defer { unsafe fclose(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = unsafe fread(&chunk, 1, chunk.count, file)
            if count == 0 { return bytes }
            bytes += chunk[..<count]
        }
    }

    static func write(_ bytes: [UInt8], to path: String) throws {
        guard let file = unsafe fopen(path, "wb") else { throw CommandError(description: "cannot write \(path): errno \(errno)") }
        unsafe fwrite(bytes, 1, bytes.count, file)
        unsafe fclose(file)
    }
}
