/// What is observed: a property of the engine's own, or one of a subclass.
enum ObservedKey: Hashable, @unchecked Sendable {
    // Safety: `@unchecked Sendable` because a key path is only compared and hashed here.
    case isCancelled, isAsynchronous, isExecuting, isFinished, isReady
    case dependencies, queuePriority, completionBlock, name
    case operations, operationCount, isSuspended, maxConcurrentOperationCount
    case totalUnitCount, completedUnitCount, fractionCompleted
    /// A property that a subclass announces by a string.
    case named(String)
    /// A property that a subclass announces by a key path.
    case path(AnyKeyPath)

    /// What a string means, in both spellings of Foundation's flags.
    init(_ string: String) {
        self = ObservedKey.known[string] ?? .named(string)
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

/// Whether two values are of one equatable type, and equal.
func areEqual(_ left: any Sendable, _ right: any Sendable) -> Bool {
    func compare<Value: Equatable>(_ left: Value) -> Bool { (right as? Value) == left }
    guard let left = left as? any Equatable else { return false }
    return compare(left)
}
