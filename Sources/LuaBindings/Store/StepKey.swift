import CLua
import Glibc
@_spi(Subclassing) import OpEngine
import OpStore

/// Everything that the result of an operation depends on, besides files. See docs/store.md.
struct StepKey {
    private(set) var components: [Step.Component]
    /// The labels of the components, once a search through these would take long.
    private var labels: Set<String> = []
    private static let few = 16
    /// The operations whose results are components, numbered in the order of these components.
    private var known: [ObjectIdentifier: Int] = [:]
    /// The operations whose outcomes are being digested, outermost first.
    private var visited: [ObjectIdentifier] = []
    /// The digests of outcomes: results may lead to one operation in many ways.
    private var outcomes: [ObjectIdentifier: Digest] = [:]
    /// The names of the modules that the result depends on.
    private var modules: Set<String> = []
    private static let deepest = 64

    /// - Parameters:
    ///   - body: the function that `operation` is about to run.
    ///   - storage: the values that scripts have stored in the operation.
    init(
        of body: Parcel, for operation: LuaOperation, _ storage: [String: Parcel], _ options: StepOptions, in state: LuaState,
        _ store: WorkStore
    ) throws(Failure) {
        visited = [ObjectIdentifier(operation)]
        let parts = try Self.parts(of: body, CLUA_BODY)
        components = parts.components
        modules.formUnion(parts.modules)
        for met in parts.met { try add(met, of: operation) }
        try add(operation.dependencies, of: operation)
        for (name, value) in storage.sorted(by: { $0.key < $1.key }) {
            add("'\(name)' of the operation", try digest(of: value, CLUA_STORED, path: "'\(name)' of \(operation.displayName)"))
        }
        if let preludes = try store.key(ofPreludes: state.core.published.preludes) {
            add("the preludes", preludes.digest)
            modules.formUnion(preludes.modules)
            for other in preludes.operations.compactMap(\.operation) {
                try add(resultOf: other, path: "an operation that a prelude captures")
            }
        }
        if let loaders = state.core.published.loaders, !modules.isSubset(of: WorkStore.standardModules) {
            add("package.preload", try digest(of: loaders, CLUA_STORED, path: "package.preload"))
        }
        for component in try store.components(ofModules: modules.sorted(), in: state) { add(component.label, component.digest) }
        for name in options.environment { add("environment variable '\(name)'", Self.digest(ofVariable: name)) }
        if let version = options.version { add("version", version) }
    }

    /// The key of values, which may refer to no other objects of the host than operations.
    static func digest(of parcel: Parcel, _ role: clua_parcel_role) throws(Failure) -> PreludeKey {
        let parts = try parts(of: parcel, role)
        var hasher = Hasher128()
        parts.combine(into: &hasher)
        return PreludeKey(
            digest: hasher.finalize(), modules: parts.modules,
            operations: parts.met.compactMap { ($0.object as? Operation).map { WeakOperation($0) } })
    }

    /// The key of a prelude, and the operations that it captures, whose outcomes are not in the digest. The prelude keeps them alive.
    struct PreludeKey: Sendable {
        let digest: Digest
        let modules: [String]
        let operations: [WeakOperation]
    }

    private mutating func add(_ label: String, _ digest: Digest) {
        var unique = label, number = 1
        while !isNew(unique) {
            number += 1
            unique = "\(label) (\(number))"
        }
        components.append(Step.Component(label: unique, digest: digest))
    }

    private mutating func isNew(_ label: String) -> Bool {
        if components.count < Self.few { return !components.contains { $0.label == label } }
        if labels.isEmpty { labels = Set(components.lazy.map(\.label)) }
        return labels.insert(label).inserted
    }

    // MARK: objects

    private mutating func add(_ met: Parts.Met, of operation: LuaOperation) throws(Failure) {
        switch met.object {
        case let other as Operation where other === operation: add("the operation itself", Digest(high: 0, low: 0))
        case let other as Operation: try add(resultOf: other, path: met.path)
        default: add(try Self.label(of: met), try digest(of: met))
        }
    }

    /// Adds the dependencies. A body finds them in the operation that is its argument, whether it captures them or not.
    private mutating func add(_ dependencies: [Operation], of operation: LuaOperation) throws(Failure) {
        if dependencies.isEmpty { return }
        var order = Hasher128()
        for dependency in dependencies {
            if known[ObjectIdentifier(dependency)] == nil {
                try add(resultOf: dependency, path: "a dependency of \(operation.displayName)")
            }
            order.combine(UInt64(known[ObjectIdentifier(dependency)] ?? 0))
        }
        add("the list of dependencies", order.finalize())
    }

    private mutating func add(resultOf other: Operation, path: String) throws(Failure) {
        known[ObjectIdentifier(other)] = known.count
        add("result of \(other.displayName)", try digest(ofOutcomeOf: other, path: path))
    }

    /// Everything that a body can learn of an operation that has finished.
    private mutating func digest(ofOutcomeOf other: Operation, path: String) throws(Failure) -> Digest {
        var hasher = Hasher128()
        if let index = visited.firstIndex(of: ObjectIdentifier(other)) {
            hasher.combine("an operation around it")
            hasher.combine(UInt64(index))
            return hasher.finalize()
        }
        if let digest = outcomes[ObjectIdentifier(other)] { return digest }
        if visited.count > Self.deepest {
            throw Failure(message: "\(path) leads to operations whose results are operations, more than \(Self.deepest) of them in turn")
        }
        guard let outcome = other.outcome else {
            throw Failure(
                message: "\(path) is \(other.displayName), which has not finished, so its result cannot be part of the key: "
                    + "add it to the dependencies")
        }
        visited.append(ObjectIdentifier(other))
        defer { visited.removeLast() }
        hasher.combine(outcome == .succeeded ? 0 : outcome == .failed ? 1 : 2 as UInt64)
        if let error = other.error { hasher.combine(try digest(ofError: error, path: "the error of \(other.displayName)")) }
        if let members = other.memberQueue?.members {
            for member in members { hasher.combine(try digest(ofOutcomeOf: member, path: "a member of \(other.displayName)")) }
        }
        guard let lua = other as? LuaOperation else { return hasher.finalize() }
        defer { outcomes[ObjectIdentifier(other)] = hasher.finalize() }
        if lua.step?.isAssumedToRun ?? false { hasher.combine("would run") }
        for parcel in lua.results ?? [] {
            hasher.combine(try digest(of: parcel, CLUA_RESULTS, path: "the result of \(other.displayName)"))
        }
        for (name, value) in lua.storage.sorted(by: { $0.key < $1.key }) {
            hasher.combine(name)
            hasher.combine(try digest(of: value, CLUA_STORED, path: "'\(name)' of \(other.displayName)"))
        }
        return hasher.finalize()
    }

    private mutating func digest(of parcel: Parcel, _ role: clua_parcel_role, path: String) throws(Failure) -> Digest {
        let parts = try Self.parts(of: parcel, role)
        modules.formUnion(parts.modules)
        var hasher = Hasher128()
        parts.combine(into: &hasher)
        for met in parts.met {
            if let other = met.object as? Operation {
                hasher.combine(try digest(ofOutcomeOf: other, path: "\(met.path) in \(path)"))
            } else {
                hasher.combine(try digest(of: met))
            }
        }
        return hasher.finalize()
    }

    private static func label(of met: Parts.Met) throws(Failure) -> String {
        switch met.object {
        case let queue as OperationQueue: return queue.displayName
        case is OperationFailure: return "the error in \(met.path)"
        default: throw unstable(met)
        }
    }

    private mutating func digest(of met: Parts.Met) throws(Failure) -> Digest {
        switch met.object {
        case let queue as OperationQueue:
            var hasher = Hasher128()
            hasher.combine(queue.isMain ? "main" : queue.givenName ?? "")
            return hasher.finalize()
        case let failure as OperationFailure: return try digest(ofError: failure, path: met.path)
        default: throw Self.unstable(met)
        }
    }

    /// Everything that a body can learn of an error.
    private mutating func digest(ofError error: any Error, path: String) throws(Failure) -> Digest {
        var hasher = Hasher128()
        guard let failure = error as? OperationFailure else {
            hasher.combine("\(error)")
            return hasher.finalize()
        }
        hasher.combine(failure.kind.rawValue)
        hasher.combine(failure.message)
        if let value = failure.value { hasher.combine(try digest(of: value, CLUA_STORED, path: "the value of \(path)")) }
        return hasher.finalize()
    }

    private static func unstable(_ met: Parts.Met) -> Failure {
        Failure(
            message: "\(met.path) is \(met.kind), which has no key that is the same in another run: "
                + "pass what it is made from instead, or leave out the options that ask the store")
    }

    // MARK: the environment

    private static func digest(ofVariable name: String) -> Digest {
        var hasher = Hasher128()
        if let value = unsafe getenv(name) { unsafe hasher.combine(bytes: UnsafeRawBufferPointer(start: value, count: strlen(value) + 1)) }
        return hasher.finalize()
    }

    // MARK: parcels

    /// The parts of a parcel, as C has found them.
    struct Parts {
        struct Met {
            let object: AnyObject
            let kind: String
            /// The path to the object: `upvalue 'log' of function 'compile'`.
            let path: String
        }

        var components: [Step.Component] = []
        var met: [Met] = []
        var modules: [String] = []

        /// Combines the components. The caller combines the objects.
        func combine(into hasher: inout Hasher128) {
            for component in components {
                hasher.combine(component.label)
                hasher.combine(component.digest)
            }
        }
    }

    private static func parts(of parcel: Parcel, _ role: clua_parcel_role) throws(Failure) -> Parts {
        let contents = parcel.objects.map { object in
            var hasher = Hasher128()
            hasher.combine((object as? Operation)?.displayName ?? (object as? OperationQueue)?.displayName ?? "")
            return hasher.finalize().low
        }
        var key = unsafe clua_key()
        let status = unsafe contents.withUnsafeBufferPointer { unsafe clua_key_make(parcel.pointer, role, $0.baseAddress, &key) }
        defer {
            unsafe clua_key_free(&key)
            withExtendedLifetime(parcel) {}
        }
        if status == CLUA_KEY_NO_MEMORY { throw Failure(message: "not enough memory for the key of what an operation runs") }
        if status == CLUA_KEY_UNSTABLE {
            throw Failure(
                message:
                    "a frozen value with functions or objects in it has no key that is the same in another run: capture these by themselves"
            )
        }
        guard status == CLUA_KEY_MADE else { throw Failure(message: "opscript bug: a parcel cannot be read for its key") }
        var parts = Parts()
        unsafe parts.components.reserveCapacity(key.component_count)
        for index in 0..<(unsafe key.component_count) {
            let component = unsafe key.components[index]
            var made = unsafe Step.Component(
                label: String(cString: component.label), digest: Digest(high: component.digest.high, low: component.digest.low))
            unsafe made.lines.reserveCapacity(component.line_count)
            for line in 0..<(unsafe component.line_count) {
                let line = unsafe component.lines[line]
                made.lines.append(Step.Component.Line(number: Int(line.number), digest: line.digest))
            }
            parts.components.append(made)
        }
        for index in 0..<(unsafe key.met_count) {
            let met = unsafe key.met[index]
            let object = unsafe parcel.object(at: Int(met.reference))
            parts.met.append(unsafe Parts.Met(object: object.object, kind: object.kind, path: String(cString: met.path)))
        }
        for index in 0..<(unsafe key.module_count) { parts.modules.append(unsafe String(cString: key.modules[index]!)) }
        return parts
    }
}

extension Parcel {
    /// The object of the host that a reference in the parcel leads to, and the name of its kind in messages.
    func object(at index: Int) -> (object: AnyObject, kind: String) {
        let reference = unsafe clua_parcel_reference(pointer, index).pointee
        // Safety: the parcel, or its owner, keeps the object alive.
        let found = unsafe Unmanaged<AnyObject>.fromOpaque(reference.object).takeUnretainedValue()
        let kind =
            switch unsafe ObjectKind(rawValue: reference.kind) {
            case .timer: "a timer"
            case .process, .stream: "a program that runs"
            case .observation: "an observation"
            case .object: "an object of the host"
            case .channel: "a channel"
            default: "an object"
            }
        return (found, kind)
    }

    var objects: [AnyObject] { (0..<(unsafe clua_parcel_reference_count(pointer))).map { object(at: $0).object } }
}
