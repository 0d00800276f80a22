import Glibc

/// A file without a name. It is deleted with this object.
final class ScratchFile {
    let descriptor: Int32

    init(holding bytes: [UInt8] = []) throws {
        var template = Array("/tmp/opscript-tests.XXXXXX".utf8CString)
        descriptor = unsafe mkstemp(&template)
        guard descriptor >= 0 else { throw CommandError(description: "mkstemp: errno \(errno)") }
        unsafe unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        guard unsafe write(descriptor, bytes, bytes.count) == bytes.count else { throw CommandError(description: "write: errno \(errno)") }
        lseek(descriptor, 0, SEEK_SET)
    }

    deinit { close(descriptor) }

    /// Everything that was written to the file.
    func contents() -> [UInt8] {
        let size = Int(lseek(descriptor, 0, SEEK_END))
        lseek(descriptor, 0, SEEK_SET)
        return unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = unsafe max(0, read(descriptor, buffer.baseAddress, size))
        }
    }
}

/// A directory for one test. It is deleted with this object.
final class ScratchDirectory: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/opscript-tests.XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw CommandError(description: "mkdtemp: errno \(errno)") }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit {
        _ = try? Command(program: "rm", name: "rm", arguments: ["-rf", "--", path]).run()
    }

    /// Writes a file, creating the directories above it, and returns its path.
    @discardableResult
    func write(_ text: String, to name: String) throws -> String {
        let file = "\(path)/\(name)"
        _ = try Command.shell(#"mkdir -p -- "$(dirname -- "$1")" && cat > "$1""#, file).input(text).run()
        return file
    }
}
