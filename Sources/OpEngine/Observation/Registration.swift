/// One observer's interest in one key.
final class Registration: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because the variables are guarded by the lock of the mailbox it belongs to.

    /// Calls the observer; the object is the observed one.
    typealias Handler = @Sendable (AnyObject, Notice) -> Void

    /// What it is called with.
    struct Notice: Sendable {
        let old: (any Sendable)?
        let new: (any Sendable)?
        let isPrior: Bool
    }

    let key: ObservedKey
    let options: KeyValueObservingOptions
    let handler: Handler
    /// Only later changes are for it.
    var since: UInt64 = 0
    /// The value it was told last.
    var last: any Sendable
    /// The first call has not returned yet: nothing may overtake it.
    var isAwaitingInitial: Bool
    var isActive = true

    init(key: ObservedKey, options: KeyValueObservingOptions, initial: any Sendable, handler: @escaping Handler) {
        self.key = key
        self.options = options
        self.handler = handler
        last = initial
        isAwaitingInitial = options.contains(.initial)
    }

    func notice(old: (any Sendable)?, new: (any Sendable)?, isPrior: Bool = false) -> Notice {
        Notice(old: options.contains(.old) ? old : nil, new: options.contains(.new) && !isPrior ? new : nil, isPrior: isPrior)
    }
}
