import OpCluster

/// A question of a worker to the coordinator of a run, and its answers.
enum ClusterQuestion {
    /// The source of a module.
    case module(String)
    /// Those inputs of a task that exist.
    case inputs(task: UInt64)

    var bytes: [UInt8] {
        var writer = ByteWriter()
        switch self {
        case .module(let name):
            writer.byte(1)
            writer.text(name)
        case .inputs(let task):
            writer.byte(2)
            writer.number(task)
        }
        return writer.bytes
    }

    init?(_ bytes: [UInt8]) {
        var reader = ByteReader(bytes[...])
        do {
            switch try reader.byte() {
            case 1: self = .module(try reader.text())
            case 2: self = .inputs(task: try reader.number())
            default: return nil
            }
        } catch { return nil }
    }

    // MARK: answers

    /// A file in an answer.
    struct File {
        let path: String
        let mode: UInt32
        let name: BlobName
    }

    static func answer(_ files: [SentFile]) -> [UInt8] {
        var writer = ByteWriter()
        writer.list(files) { writer, file in
            writer.text(file.path)
            writer.number(Int(file.mode))
            writer.raw(file.blob.name.digest)
            writer.number(file.blob.name.count)
        }
        return writer.bytes
    }

    static func files(in answer: [UInt8]) throws(MalformedMessage) -> [File] {
        var reader = ByteReader(answer[...])
        return try reader.list { reader throws(MalformedMessage) in
            let path = try reader.text(), mode = try reader.count()
            let digest = try reader.raw(BlobName.digestCount), count = try reader.count()
            return File(path: path, mode: UInt32(truncatingIfNeeded: mode), name: BlobName(digest: Array(digest), count: count))
        }
    }
}
