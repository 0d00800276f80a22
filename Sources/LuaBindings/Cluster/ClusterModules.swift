import CLua
import Glibc
import OpCluster
import OpPlatform

/// The modules of a script, for workers that do not have the same files. A worker keeps a text under its digest, and uses it in later runs
/// as well.
enum ClusterModules {
    /// The text of a module, and its name in messages.
    struct Source: Sendable {
        let blob: Blob
        let chunkName: String
    }

    /// Finds a module as `require` does, but only in Lua: modules in C must be installed at the workers.
    static func find(_ name: String, path: String, loader: (@Sendable (String) throws -> String?)?) -> Source? {
        if let loader, let text = (try? loader(name)) ?? nil { return Source(blob: Blob(copying: Array(text.utf8)), chunkName: "@\(name)") }
        // A worker must get modules only, so a name that is a path is refused.
        if name.utf8.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") }) { return nil }
        let file = name.split(separator: ".", omittingEmptySubsequences: false).joined(separator: "/")
        for template in path.split(separator: ";") {
            let candidate = template.split(separator: "?", omittingEmptySubsequences: false).joined(separator: file)
            if let contents = try? FileContents(path: candidate) {
                return Source(blob: Blob(copying: contents.bytes), chunkName: "@\(candidate)")
            }
        }
        return nil
    }

    /// answer := is-there [digest count chunk-name]
    static func answer(_ source: Source?) -> [UInt8] {
        var writer = ByteWriter()
        guard let source else { return [0] }
        writer.byte(1)
        writer.raw(source.blob.name.digest)
        writer.number(source.blob.name.count)
        writer.text(source.chunkName)
        return writer.bytes
    }

    /// Asks the coordinator of a task for a module. Waits for the answer.
    ///
    /// - Returns: the text, and its name in messages; nil if the coordinator does not have the module.
    /// - Throws: an error if there is no answer.
    static func fetch(_ name: String, for task: WorkerTask) throws -> (text: [UInt8], chunkName: String)? {
        let answered = Awaited<[UInt8]?>()
        task.ask(ClusterQuestion.module(name).bytes) { answered.give($0) }
        guard let answer = answered.get() else { throw LuaError(message: "the coordinator does not answer for the module '\(name)'") }
        var reader = ByteReader(answer[...])
        guard try reader.byte() != 0 else { return nil }
        let digest = try reader.raw(BlobName.digestCount), count = try reader.count(), chunkName = try reader.text()
        let fetched = Awaited<[Blob]?>()
        task.fetch([BlobName(digest: Array(digest), count: count)]) { fetched.give($0) }
        guard let blob = fetched.get()?.first else { throw LuaError(message: "the module '\(name)' did not come from the coordinator") }
        return unsafe (Array(blob.bytes), chunkName)
    }
}

extension LuaState {
    /// The value of `package.path`, as the script has set it.
    func modulePath() throws(Failure) -> String {
        var path: UnsafeMutablePointer<CChar>?
        try unsafe attempt { lua, failure in unsafe clua_module_path(lua, &path, &failure) }
        defer { unsafe free(path) }
        return unsafe path.map { unsafe String(cString: $0) } ?? ""
    }
}
