import Glibc
@_spi(Subclassing) import OpEngine
import OpStore

/// The files that the body of an operation writes under temporary names. They get their own names when the body has succeeded, so other
/// programs never see half of a file.
struct NewOutputs: Sendable {
    /// In the order of asking, which is the order of renaming.
    private(set) var files: [(path: String, temporary: String)] = []

    /// The temporary name for `path`, whose folder this makes. The body gets one name for a path, however often it asks.
    mutating func temporaryName(for path: String) -> String {
        if let known = files.first(where: { $0.path == path }) { return known.temporary }
        let temporary = TemporaryName.make(for: path)
        files.append((path, temporary))
        return temporary
    }

    /// Gives all files their names.
    ///
    /// - Throws: an error if one of them was not written, or cannot be renamed.
    func publish() throws(Failure) {
        for (path, temporary) in files where unsafe access(temporary, F_OK) != 0 {
            throw Failure(message: "'\(path)' was not written: output returned '\(temporary)', and the body has made no such file")
        }
        // So that, as far as can be told before, either all files get their names or none.
        for (path, _) in files where unsafe access(Self.folder(of: path), W_OK) != 0 {
            let reason = unsafe String(cString: strerror(errno))
            throw Failure(message: "cannot give '\(path)' its name: \(reason)")
        }
        for (path, temporary) in files where unsafe rename(temporary, path) != 0 {
            let reason = unsafe String(cString: strerror(errno))
            throw Failure(message: "cannot rename '\(temporary)' to '\(path)': \(reason)")
        }
    }

    private static func folder(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Removes the files that have no name of their own yet.
    func discard() { for file in files { unsafe unlink(file.temporary) } }
}

extension LuaOperation {
    /// `operation:output(path)`, in the body: the name under which the body writes the file.
    func temporaryName(forOutput path: String?) throws(Failure) -> String {
        if kind == .blocks {
            throw Failure(message: "\(displayName) has blocks: only an operation with one function has temporary outputs")
        }
        let declared = step?.options.outputs ?? []
        guard let path = path ?? (declared.count == 1 ? declared[0] : nil) else {
            throw Failure(message: "output needs a path: \(displayName) has \(declared.count) declared outputs")
        }
        if path.isEmpty || path.hasSuffix("/") || path.utf8.contains(0) { throw Failure(message: "'\(path)' is no path of a file") }
        if !declared.isEmpty, !declared.contains(path) {
            let near = Spelling.suggestion(for: path, among: declared)
            throw Failure(message: "'\(path)' is none of the outputs of \(displayName)\(near)")
        }
        // A body that is cancelled leaves the file to the end of the operation.
        guard tellWhenFinished() else { throw Failure(message: "\(displayName) has ended: call 'output' before") }
        return withFields { $0.rareInUse.newOutputs.temporaryName(for: path) }
    }

    /// Gives the temporary outputs their names, because the body has succeeded.
    func publishOutputs() throws(Failure) {
        guard let (outputs, step) = rare({ ($0.newOutputs, $0.step) }), !isCancelled else { return }
        if let options = step?.options, options.isAtomic,
            let missing = options.outputs.first(where: { path in !outputs.files.contains { $0.path == path } })
        {
            throw Failure(
                message:
                    "\(displayName) has 'atomic', so its body must write '\(missing)' under the name that output(\"\(missing)\") returns")
        }
        if outputs.files.isEmpty { return }
        try outputs.publish()
        withFields { $0.rareInUse.newOutputs = NewOutputs() }
    }

    /// Removes the temporary outputs of a body that has failed, or was stopped.
    func discardOutputs() {
        guard let outputs = rare({ $0.newOutputs.files.isEmpty ? nil : $0.newOutputs }) else { return }
        withFields { $0.rareInUse.newOutputs = NewOutputs() }
        outputs.discard()
    }
}
