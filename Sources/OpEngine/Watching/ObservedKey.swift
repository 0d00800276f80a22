/// The name of an observed property, of the engine or of a subclass.
enum ObservedKey: Hashable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because a key path is only compared and hashed.
    case isCancelled, isAsynchronous, isExecuting, isFinished, isReady
    case dependencies, queuePriority, completionBlock, name
    case operations, operationCount, isSuspended, maxConcurrentOperationCount
    case progress(OperationQueueProgress.Property)
    /// A subclass's property that is announced by a string.
    case named(String)
    /// A subclass's property that is announced by a key path.
    case path(AnyKeyPath)

    /// The key for a string. Accepts both spellings of Foundation's flags.
    init(_ string: String) {
        self = ObservedKey.known[string] ?? .named(string)
    }

    /// The strings that mean this key. None if a subclass announces the key by a key path.
    var names: [String] {
        switch self {
        case .named(let name): [name]
        case .path: []
        default: ObservedKey.known.filter { $0.value == self }.map(\.key)
        }
    }

    /// Whether the key is that of a subclass.
    var isOfSubclass: Bool {
        switch self {
        case .named, .path: true
        default: false
        }
    }

    /// Whether the key is that of an operation's flag that can change.
    var isFlag: Bool {
        switch self {
        case .isCancelled, .isExecuting, .isFinished, .isReady: true
        default: false
        }
    }

    private static let known: [String: ObservedKey] = [
        "isCancelled": .isCancelled, "cancelled": .isCancelled,
        "isAsynchronous": .isAsynchronous, "asynchronous": .isAsynchronous,
        "isConcurrent": .isAsynchronous, "concurrent": .isAsynchronous,
        "isExecuting": .isExecuting, "executing": .isExecuting,
        "isFinished": .isFinished, "finished": .isFinished,
        "isReady": .isReady, "ready": .isReady,
        "dependencies": .dependencies, "queuePriority": .queuePriority, "completionBlock": .completionBlock, "name": .name,
        "operations": .operations, "operationCount": .operationCount,
        "isSuspended": .isSuspended, "suspended": .isSuspended,
        "maxConcurrentOperationCount": .maxConcurrentOperationCount,
        "progress.totalUnitCount": .progress(.totalUnitCount), "progress.completedUnitCount": .progress(.completedUnitCount),
        "progress.fractionCompleted": .progress(.fractionCompleted), "progress.isFinished": .progress(.isFinished),
        "progress.isIndeterminate": .progress(.isIndeterminate),
    ]
}

/// Whether two values have the same `Equatable` type and are equal, or are both nil.
func areEqual(_ left: any Sendable, _ right: any Sendable) -> Bool {
    func compare<Value: Equatable>(_ left: Value) -> Bool { (right as? Value) == left }
    guard let left = left as? any Equatable else { return isNil(left) && isNil(right) }
    return compare(left)
}

private func isNil(_ value: any Sendable) -> Bool {
    let mirror = Mirror(reflecting: value)
    return mirror.displayStyle == .optional && mirror.children.isEmpty
}
