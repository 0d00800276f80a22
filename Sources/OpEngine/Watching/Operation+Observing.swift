extension KeyValueObserving where Self: Operation {
    /// Calls `changeHandler` when the property changes, until the returned token is invalidated or deallocated.
    ///
    /// The flags, `dependencies`, `queuePriority`, `completionBlock` and `name` are observable, even if a subclass overrides them and
    /// announces their changes. So is any property that a subclass announces with `willChangeValue(for:)` and `didChangeValue(for:)`.
    /// Traps with the name of any other property, and of a path that leads further. Subscribing and reading the initial value are one step, so
    /// no change is missed or delivered twice.
    ///
    /// A change is told whenever the value may have changed, also if it has not: the subclass has announced it, or the superclass's flag has
    /// changed. An announcement of a key that the class does not declare (see `keyPathsForValuesAffectingValue(forKey:)`) is one of `isReady`
    /// too, until the operation starts, and of the other overridden flags and properties of the subclass if their values have changed.
    ///
    /// All changes of one operation are delivered in the order in which they happened, one at a time. At the end, the change of `isExecuting`
    /// precedes that of `isFinished`. The handler runs on the thread that made the change, or on a thread that is delivering an earlier change of the
    /// same operation. No lock is held, so the handler may call anything. Operations without observers pay one branch.
    ///
    /// In a subclass that overrides the property, write `\.isFinished` or `\Operation.isFinished`, without the subclass's name.
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<Operation, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(Operation.observableKey(keyPath, isInherited: true), options, Self.untyped(changeHandler)) { $0[keyPath: keyPath] }
    }

    /// Observes a property of a subclass. Otherwise like the method above.
    @_disfavoredOverload
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<Self, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(Self.observableKey(keyPath, isInherited: false), options, Self.untyped(changeHandler)) { $0[keyPath: keyPath] }
    }

    /// Observes a property that is named by a string, in either spelling of flags. The values come from `value(forKey:)`.
    public func observe(
        keyPath: String, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (KeyValueObservedChange<any Sendable>) -> Void
    ) -> KeyValueObservation {
        subscribe(named: keyPath, options, changeHandler)
    }

    /// Announces that an overridden property is about to change. The getter must return the old value.
    public func willChangeValue<Value: Sendable>(for keyPath: KeyPath<Operation, Value>) {
        observedMailbox?.willChange(Operation.observedKey(keyPath)) { self[keyPath: keyPath] }
    }

    /// Announces that a property of a subclass is about to change. The getter must return the old value.
    @_disfavoredOverload
    public func willChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        observedMailbox?.willChange(Self.observedKey(keyPath)) { self[keyPath: keyPath] }
    }

    /// Announces that an overridden property has changed. The engine reads the getter and acts on the new value, and observers are
    /// notified.
    public func didChangeValue<Value: Sendable>(for keyPath: KeyPath<Operation, Value>) {
        let key = Operation.observedKey(keyPath)
        observedMailbox?.didChange(key) { self[keyPath: keyPath] }
        react(toChangeOf: key)
    }

    /// Announces that a property of a subclass has changed. Observers are notified.
    @_disfavoredOverload
    public func didChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        let key = Self.observedKey(keyPath)
        observedMailbox?.didChange(key) { self[keyPath: keyPath] }
        react(toChangeOf: key)
    }

    /// Records a change that the caller made while holding a lock of its own. The caller must still hold that lock, so that changes are
    /// delivered in the order of these calls. Use this method if `value(forKey:)` takes the lock, and call `deliverRecordedChanges` after
    /// releasing it.
    public func recordChange(forKey key: String, old: @autoclosure () -> any Sendable, new: @autoclosure () -> any Sendable) {
        observedMailbox?.record(ObservedKey(key), old: old(), new: new())
    }

    /// Delivers the changes that `recordChange` has recorded. The caller must hold no lock.
    public func deliverRecordedChanges() { deliverChanges() }

    private static func observableKey(_ keyPath: PartialKeyPath<Self>, isInherited: Bool) -> ObservedKey {
        checked(
            observedKey(keyPath), keyPath, isInherited: isInherited,
            not: [
                ("qualityOfService", \Self.qualityOfService), ("description", \Self.description), ("hash", \Self.hash),
                ("debugDescription", \Self.debugDescription), ("queue", \Self.queue), ("error", \Self.error),
                ("outcome", \Self.outcome), ("dependencyPolicy", \Self.dependencyPolicy), ("group", \Self.group),
                ("attempt", \Self.attempt), ("retryPolicy", \Self.retryPolicy), ("exclusiveKeys", \Self.exclusiveKeys),
                ("needs", \Self.needs), ("attemptErrors", \Self.attemptErrors), ("whyNotRunning", \Self.whyNotRunning),
                ("name", \Self.name), ("dependencies", \Self.dependencies), ("queuePriority", \Self.queuePriority),
            ])
    }

    /// Maps key paths to inherited properties to keys. Such a key path differs from the one to the same property of the base class.
    private static func observedKey(_ keyPath: PartialKeyPath<Self>) -> ObservedKey {
        switch keyPath {
        case \Self.isCancelled: .isCancelled
        case \Self.isAsynchronous, \Self.isConcurrent: .isAsynchronous
        case \Self.isExecuting: .isExecuting
        case \Self.isFinished: .isFinished
        case \Self.isReady: .isReady
        case \Self.dependencies: .dependencies
        case \Self.queuePriority: .queuePriority
        case \Self.completionBlock: .completionBlock
        case \Self.name: .name
        default: .path(keyPath)
        }
    }
}

extension Operation {
    static let observableNames = [
        "isCancelled", "isAsynchronous", "isExecuting", "isFinished", "isReady", "dependencies", "queuePriority", "completionBlock", "name",
    ]

    static let untoldNames = ["qualityOfService", "threadPriority"]

    func expectSubscription() -> Mailbox { openMailbox { $0.subscribing += 1 } }

    /// The value of a base class's property. Nil for other keys.
    func observedValue(_ key: ObservedKey) -> (any Sendable)? {
        switch key {
        case .isCancelled: isCancelled
        case .isAsynchronous: isAsynchronous
        case .isExecuting: isExecuting
        case .isFinished: isFinished
        case .isReady: isReady
        case .dependencies: dependencies
        case .queuePriority: queuePriority
        case .completionBlock: completionBlock
        case .name: name
        default: nil
        }
    }
}
