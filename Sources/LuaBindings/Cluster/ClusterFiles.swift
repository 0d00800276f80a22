import Glibc
import OpCluster
import OpEngine

/// The files of an operation with `inputs` or `outputs`, for a worker that may not see them. Paths are relative to the working directory.
///
/// The coordinator leaves a token: a file whose name and contents are unique. A worker that finds the token sees the coordinator's files,
/// and uses them. Another worker asks for the inputs, and sends the outputs back.
struct ClusterFiles: Sendable {
    /// A file of a run that tells whether another machine sees the same files.
    struct Token: Sendable, Hashable {
        let path: String
        let contents: String

        /// Whether this process finds the file, with its contents.
        var isSeen: Bool { (try? FileContents(path: path)).map { Array(contents.utf8) == $0.bytes } ?? false }
    }

    let token: Token
    let inputs: [String]
    let outputs: [String]

    /// Paths outside of the working directory are harmless if all workers see the same files. A worker that does not see them refuses such
    /// paths, in `fetch`.
    init(token: Token, inputs: [String], outputs: [String]) { (self.token, self.inputs, self.outputs) = (token, inputs, outputs) }

    /// The path relative to `directory`; the absolute path if it is outside of that.
    static func relative(_ path: String, to directory: String) -> String {
        let prefix = directory == "/" ? "/" : directory + "/"
        return path.hasPrefix(prefix) ? String(path.dropFirst(prefix.count)) : path
    }

    static var workingDirectory: String {
        guard let path = unsafe getcwd(nil, 0) else { return "/" }
        defer { unsafe free(path) }
        return unsafe String(cString: path)
    }

    /// Whether a path stays below the directory that it is relative to.
    static func isInside(_ path: String) -> Bool {
        !path.isEmpty && !path.hasPrefix("/") && !path.split(separator: "/").contains("..")
    }

    // MARK: the wire

    func write(to writer: inout WireWriter) {
        for text in [token.path, token.contents] { writer.text(text) }
        for list in [inputs, outputs] {
            writer.number(list.count)
            for path in list { writer.text(path) }
        }
    }

    init(_ reader: inout WireReader) throws(Failure) {
        token = Token(path: try reader.text(), contents: try reader.text())
        inputs = try reader.list { reader throws(Failure) in try reader.text() }
        outputs = try reader.list { reader throws(Failure) in try reader.text() }
    }
}

/// A file that one member of the cluster sends to another.
struct SentFile: Sendable {
    let path: String
    let mode: mode_t
    let blob: Blob

    /// Writes the file, and the folders that it needs, below `directory`. The file appears with all of its contents or not at all.
    func write(below directory: String) throws(Failure) {
        let path = "\(directory)/\(path)"
        makeFolders(of: path)
        let temporary = "\(path).\(getpid()).tmp"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode & 0o777)
        guard descriptor >= 0 else { throw Failure(message: "cannot write '\(path)': \(unsafe String(cString: strerror(errno)))") }
        var rest = unsafe blob.bytes[...]
        var error: Int32 = 0
        while error == 0, unsafe !rest.isEmpty {
            let count = unsafe Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0 { error = errno == EINTR ? 0 : errno } else { unsafe rest = rest.dropFirst(count) }
        }
        if close(descriptor) != 0 && error == 0 { error = errno }
        if error == 0, unsafe rename(temporary, path) != 0 { error = errno }
        if error == 0 { return }
        unsafe unlink(temporary)
        throw Failure(message: "cannot write '\(path)': \(unsafe String(cString: strerror(error)))")
    }
}

/// Whether the path is that of a folder.
func isFolder(_ path: String) -> Bool {
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
}

/// Makes the folders above a file. Opening the file reports any error.
func makeFolders(of path: String) {
    var slash = path.startIndex
    while let next = path[path.index(after: slash)...].firstIndex(of: "/") {
        unsafe mkdir(String(path[..<next]), 0o777)
        slash = next
    }
}

/// The contents and the mode of a file.
struct FileContents {
    let bytes: [UInt8]
    let mode: mode_t

    /// Reads a file.
    ///
    /// - Throws: an error if there is no such file.
    init(path: String) throws(Failure) {
        // Without O_NONBLOCK, a pipe that has taken the place of the file would block.
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw Failure(message: "cannot read '\(path)': \(unsafe String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw Failure(message: "cannot read '\(path)': it is not a file")
        }
        mode = status.st_mode & 0o777
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(status.st_size) + 1)
        var buffer = [UInt8](repeating: 0, count: 1 << 18)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw Failure(message: "cannot read '\(path)': \(unsafe String(cString: strerror(errno)))") }
            if count == 0 { break }
            bytes += buffer.prefix(count)
        }
        self.bytes = bytes
    }
}

extension ClusterFiles {
    /// The files among `paths` that exist, below `directory`.
    static func read(_ paths: [String], below directory: String) -> [SentFile] {
        paths.compactMap { path in
            guard let contents = try? FileContents(path: "\(directory)/\(path)") else { return nil }
            return SentFile(path: path, mode: contents.mode, blob: Blob(copying: contents.bytes))
        }
    }
}
