extension KeyValueObserving where Self: Operation {
    /// Calls `changeHandler` when the property changes, until the returned token is invalidated or goes.
    ///
    /// Every property of `Operation` that changes can be observed, also where a subclass overrides it and announces its changes, and
    /// whatever a subclass announces with `willChangeValue(for:)` and `didChangeValue(for:)`. Subscribing and reading the initial
    /// value are one step: no change is missed or told twice. All changes of one operation come in the order in which they happened,
    /// one at a time, at its end first `isExecuting`, then `isFinished`. A handler is called on the thread that made the change, or on
    /// one that is telling an earlier change of the same operation; without locks, so that it may call anything. An operation that
    /// nobody observes pays a branch.
    ///
    /// In a subclass that overrides the property, write `\.isFinished` or `\Operation.isFinished`, not the subclass's name.
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<Operation, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(Operation.observedKey(keyPath), options, Self.untyped(changeHandler)) { self[keyPath: keyPath] }
    }

    /// `observe`, for the properties of a subclass.
    @_disfavoredOverload
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<Self, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(Self.observedKey(keyPath), options, Self.untyped(changeHandler)) { self[keyPath: keyPath] }
    }

    /// `observe`, for a property that is named by a string, in both spellings of flags. The values are those of `value(forKey:)`.
    public func observe(
        keyPath: String, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (KeyValueObservedChange<any Sendable>) -> Void
    ) -> KeyValueObservation {
        let handler: @Sendable (Self, KeyValueObservedChange<any Sendable>) -> Void = { _, change in changeHandler(change) }
        return subscribe(ObservedKey(keyPath), options, Self.untyped(handler)) { value(forKey: keyPath) }
    }

    /// Announces that the property of a subclass, or an overridden one, is about to change. The getter says the old value.
    public func willChangeValue<Value: Sendable>(for keyPath: KeyPath<Operation, Value>) {
        observedMailbox?.willChange(Operation.observedKey(keyPath)) { self[keyPath: keyPath] }
    }

    /// Announces that the property of a subclass is about to change. The getter says the old value.
    @_disfavoredOverload
    public func willChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        observedMailbox?.willChange(Self.observedKey(keyPath)) { self[keyPath: keyPath] }
    }

    /// Announces that an overridden property has changed; the engine looks at the getter and acts, and observers are told.
    public func didChangeValue<Value: Sendable>(for keyPath: KeyPath<Operation, Value>) {
        let key = Operation.observedKey(keyPath)
        observedMailbox?.didChange(key) { self[keyPath: keyPath] }
        react(toChangeOf: key)
    }

    /// Announces that the property of a subclass has changed; observers are told.
    @_disfavoredOverload
    public func didChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        let key = Self.observedKey(keyPath)
        observedMailbox?.didChange(key) { self[keyPath: keyPath] }
        react(toChangeOf: key)
    }

    /// Notes a change that has been made with a lock of the subclass held, which the caller still holds and which `value(forKey:)`
    /// takes: changes are told in the order of these calls. `deliverRecordedChanges` tells them.
    public func recordChange(forKey key: String, old: @autoclosure () -> any Sendable, new: @autoclosure () -> any Sendable) {
        observedMailbox?.record(ObservedKey(key), old: old(), new: new())
    }

    /// Tells observers what `recordChange` has noted. With no lock held.
    public func deliverRecordedChanges() { deliverChanges() }

    private func subscribe(
        _ key: ObservedKey, _ options: KeyValueObservingOptions, _ handler: @escaping Registration.Handler, read: () -> any Sendable
    ) -> KeyValueObservation {
        openMailbox { $0.subscribing += 1 }.subscribe(key, options, read: read, handler: handler)
    }

    /// A key path to an inherited property differs from the one to the same property of the base class.
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
    /// What a key of the base class stands for.
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
