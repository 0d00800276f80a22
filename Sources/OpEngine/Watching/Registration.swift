/// One observer of one key.
final class Registration: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the lock of the mailbox guards the variables.

    /// Calls the observer. The first parameter is the observed object.
    typealias Handler = @Sendable (AnyObject, Notice) -> Void
    /// Reads the value. The parameter is the observed object, which the closure must not retain.
    typealias Reader = (AnyObject) -> any Sendable

    /// The untyped content of a change.
    struct Notice: Sendable {
        let old: (any Sendable)?
        let new: (any Sendable)?
        let isPrior: Bool
    }

    let key: ObservedKey
    let options: KeyValueObservingOptions
    let read: Reader
    let handler: Handler
    /// The observer receives only entries with this sequence number or a later one.
    var since: UInt64 = 0
    /// The value that the observer received last.
    var last: any Sendable
    /// Whether the prior call was made for a change that was not told yet.
    var hasToldPrior = false
    /// Whether the initial call has not returned yet. No other call may overtake it.
    var isAwaitingInitial: Bool
    var isActive = true
    /// The place in the mailbox's list.
    var slot = 0

    init(key: ObservedKey, options: KeyValueObservingOptions, initial: any Sendable, read: @escaping Reader, handler: @escaping Handler) {
        self.key = key
        self.options = options
        self.read = read
        self.handler = handler
        last = initial
        isAwaitingInitial = options.contains(.initial)
    }

    func notice(old: (any Sendable)?, new: (any Sendable)?, isPrior: Bool = false) -> Notice {
        Notice(old: options.contains(.old) ? old : nil, new: options.contains(.new) && !isPrior ? new : nil, isPrior: isPrior)
    }
}
