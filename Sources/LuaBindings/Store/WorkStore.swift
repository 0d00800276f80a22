import CLua
import Glibc
import OpEngine
import OpPlatform
import OpStore
import Synchronization

/// The store of a runtime, and the digests of its modules and preludes.
final class WorkStore: Sendable {
    private let configuration: OpStore.Store.Configuration
    private let opened = Guarded(Opened())
    let mode: Runtime.Store.Mode
    /// The number of operations that were skipped, because the store had their work.
    /// The number of operations with steps that were added.
    let plannedCount = Atomic<Int>(0)
    let skippedCount = Atomic<Int>(0)
    /// The host's own source of modules, which `require` asks first.
    private let moduleLoader: (@Sendable (String) throws -> String?)?
    private let explain: (@Sendable (Runtime.Explanation) -> Void)?
    private let modules = Guarded<[String: Module]>([:])
    private let preludes = Guarded<[StepKey.PreludeKey]>([])

    private struct Opened {
        var store: OpStore.Store?
        var isClosed = false
    }

    /// The parts of a module that count. A module is read once, because states do not load it again.
    private struct Module {
        let digest: Digest
        /// The modules that it requires by a constant name.
        let required: [String]

        init(_ bytes: [UInt8], isSource: Bool) {
            digest = unsafe bytes.withUnsafeBytes { unsafe Hasher128.hash($0) }
            required = isSource ? RequiredModules.names(in: bytes) : []
        }
    }

    /// - Parameter warn: is called with a sentence, on any thread.
    init(
        _ settings: Runtime.Store, moduleLoader: (@Sendable (String) throws -> String?)?, warn: @escaping @Sendable (String) -> Void
    ) {
        self.moduleLoader = moduleLoader
        mode = settings.mode
        explain = settings.explain
        var configuration = OpStore.Store.Configuration(directory: settings.directory, warn: warn)
        configuration.limit = settings.limit
        configuration.isDryRun = settings.mode == .dryRun
        configuration.runsAlways = settings.mode == .alwaysRun
        self.configuration = configuration
    }

    /// The store, which the first step makes: for an empty script, making it would take a sixth of all instructions.
    var store: OpStore.Store {
        opened.withLock { opened in
            if let store = opened.store { return store }
            let store = OpStore.Store(configuration)
            if opened.isClosed { store.close() }
            opened.store = store
            return store
        }
    }

    func tell(_ decision: Runtime.Explanation.Decision, about operation: LuaOperation, named name: String) {
        if decision == .isSkipped { skippedCount.wrappingAdd(1, ordering: .relaxed) }
        explain?(Runtime.Explanation(operation: operation, name: name, decision: decision))
    }

    /// Writes the pending uses, and closes the database. The store finds and records nothing afterwards.
    func close() {
        let store = opened.withLock { opened in
            opened.isClosed = true
            return opened.store
        }
        store?.close()
    }

    // MARK: modules

    /// A component for each of the modules that has a source, and for each module with a source that these require.
    func components(ofModules names: [String], in state: LuaState) throws(Failure) -> [Step.Component] {
        var components: [Step.Component] = [], known = Set(names), next = names
        while let name = next.popLast() {
            guard let file = try module(name, in: state) else { continue }
            components.append(Step.Component(label: "module '\(name)'", digest: file.digest))
            for required in file.required where known.insert(required).inserted { next.append(required) }
        }
        return components.sorted { $0.label < $1.label }
    }

    /// The modules that each state has from the beginning.
    static let standardModules: Set<String> = [
        "_G", "coroutine", "debug", "io", "math", "opscript", "opscript.fs", "opscript.fs.path", "opscript.json", "os", "package", "string",
        "table", "utf8",
    ]

    /// The module; nil if it has no source, because it is Lua's own or the host has registered it.
    private func module(_ name: String, in state: LuaState) throws(Failure) -> Module? {
        if Self.standardModules.contains(name) { return nil }
        // Another version of the published values may have other paths. A missing file may be made later, so its absence is not recorded.
        let key = "\(state.appliedSharedVersion) \(name)"
        if let known = modules.withLock({ $0[key] }) { return known }
        let source = try? moduleLoader?(name)
        var module = source.map { Module(Array($0.utf8), isSource: true) }
        if module == nil { module = try fileOfModule(name, in: state) }
        if let module { modules.withLock { $0[key] = module } }
        return module
    }

    private func fileOfModule(_ name: String, in state: LuaState) throws(Failure) -> Module? {
        var file: UnsafeMutablePointer<CChar>?
        try unsafe state.attempt { lua, failure in unsafe clua_module_file(lua, name, &file, &failure) }
        guard let file = unsafe file else { return nil }
        defer { unsafe free(file) }
        let path = unsafe String(cString: file)
        return Self.contents(of: path).map { Module($0, isSource: !path.hasSuffix(".so")) }
    }

    private static func contents(of path: String) -> [UInt8]? {
        guard let file = unsafe fopen(path, "re") else { return nil }
        defer { unsafe fclose(file) }
        var bytes: [UInt8] = []
        let size = 1 << 16
        while true {
            let count = bytes.count
            let read = unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
                count = unsafe fread(buffer.baseAddress, 1, size, file)
            }
            bytes += read
            if bytes.count - count < size { return unsafe ferror(file) == 0 ? bytes : nil }
        }
    }

    // MARK: preludes

    /// The common key of the preludes; nil if there are none.
    func key(ofPreludes all: [Prelude]) throws(Failure) -> StepKey.PreludeKey? {
        if all.isEmpty { return nil }
        var known = preludes.withLock { $0 }
        for prelude in all.dropFirst(known.count) { known.append(try StepKey.digest(of: prelude.body, CLUA_BODY)) }
        preludes.withLock { if $0.count < known.count { $0 = known } }
        let keys = known.prefix(all.count)
        var hasher = Hasher128()
        for key in keys { hasher.combine(key.digest) }
        return StepKey.PreludeKey(
            digest: hasher.finalize(), modules: keys.flatMap(\.modules), operations: keys.flatMap(\.operations))
    }
}
