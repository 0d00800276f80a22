import Glibc
import OpStore
import StoreGraph
import TestSupport
import Testing

/// A folder for one test, with a store. It is deleted with this object.
final class Folder {
    let path: String
    let warnings = Log<String>()

    init() throws {
        var template = Array("/tmp/opscript-store-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit { _ = ChildProcess("/bin/rm", ["-rf", "--", path])?.wait() }

    var database: String { path + "/.opscript/store.db" }

    /// A store beside the files of this folder.
    func store(_ change: (inout Store.Configuration) -> Void = { _ in }) -> Store {
        let warnings = warnings
        var configuration = Store.Configuration(directory: path + "/.opscript") { warnings.append($0) }
        change(&configuration)
        return Store(configuration)
    }

    func write(_ text: String, to name: String) { StoreGraph.write(text, to: path + "/" + name) }
    func read(_ name: String) -> String? { StoreGraph.read(path + "/" + name).map { String(decoding: $0, as: UTF8.self) } }
    func remove(_ name: String) { unlink(path + "/" + name) }
    func makeFolder(_ name: String) { mkdir(path + "/" + name, 0o777) }

    /// The names of files in the store's folder.
    func names() -> [String] {
        guard let folder = opendir(path + "/.opscript") else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            )
        }
        return names.filter { $0 != "." && $0 != ".." }.sorted()
    }

    /// A step with a component for each text.
    func step(_ name: String, _ components: [String: String] = [:], inputs: [String] = [], outputs: [String] = []) -> Step {
        var step = Step(name: name, identity: name, components: [])
        for (label, text) in components.sorted(by: { $0.key < $1.key }) {
            step.components.append(Step.Component(label: label, digest: Digest(of: text)))
        }
        step.inputs = inputs
        step.outputs = outputs
        step.directory = path
        return step
    }
}

extension Digest {
    init(of text: String) {
        var hasher = Hasher128()
        hasher.combine(text)
        self = hasher.finalize()
    }
}

extension Store {
    /// Runs a step as an operation does: the body only if it must run. Returns why it ran, or nil, and the value.
    @discardableResult
    func run(_ step: Step, _ body: () -> String? = { nil }) throws -> (ran: String?, value: String?, end: Work.Finish?) {
        let work = try plan(step)
        defer { work.end() }
        switch work.lookUp() {
        case .hit(let hit): return (nil, hit.value.map { String(decoding: $0, as: UTF8.self) }, nil)
        case .miss(let reason):
            if let hit = work.begin().hit { return (nil, hit.value.map { String(decoding: $0, as: UTF8.self) }, nil) }
            let value = body()
            let end = value.map { value in Array(value.utf8).withUnsafeBytes { work.finish(value: $0) } } ?? work.finish(value: nil)
            return (reason.description, value, end)
        }
    }
}
