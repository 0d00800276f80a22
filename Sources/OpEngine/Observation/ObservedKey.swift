/// The name of an observed property, of the engine or of a subclass.
enum ObservedKey: Hashable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because a key path is only compared and hashed.
    case isCancelled, isAsynchronous, isExecuting, isFinished, isReady
    case dependencies, queuePriority, completionBlock, name
    case operations, operationCount, isSuspended, maxConcurrentOperationCount
    case totalUnitCount, completedUnitCount, fractionCompleted
    /// A subclass's property that is announced by a string.
    case named(String)
    /// A subclass's property that is announced by a key path.
    case path(AnyKeyPath)

    /// The key for a string. Accepts both spellings of Foundation's flags.
    init(_ string: String) {
        self = ObservedKey.known[string] ?? .named(string)
    }

    /// Whether the key is that of a flag of an operation which changes.
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
        "totalUnitCount": .totalUnitCount, "completedUnitCount": .completedUnitCount, "fractionCompleted": .fractionCompleted,
    ]
}

/// Whether two values have the same `Equatable` type and are equal.
func areEqual(_ left: any Sendable, _ right: any Sendable) -> Bool {
    func compare<Value: Equatable>(_ left: Value) -> Bool { (right as? Value) == left }
    guard let left = left as? any Equatable else { return false }
    return compare(left)
}
