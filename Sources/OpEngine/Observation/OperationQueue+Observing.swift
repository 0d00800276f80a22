import Synchronization

extension KeyValueObserving where Self: OperationQueue {
    /// Calls `changeHandler` when the property changes, until the returned token is invalidated or goes.
    ///
    /// Observable are `operations`, `operationCount`, `isSuspended`, `maxConcurrentOperationCount`, `name`, and what a subclass
    /// announces. Threads and order are as for operations: the changes of one queue come in the order in which they happened, one at
    /// a time, without locks. Observing `operations` costs O(operations) for each change of it.
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<OperationQueue, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(OperationQueue.observedKey(keyPath), options, Self.untyped(changeHandler)) { self[keyPath: keyPath] }
    }

    /// `observe`, for the properties of a subclass.
    @_disfavoredOverload
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<Self, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(Self.observedKey(keyPath), options, Self.untyped(changeHandler)) { self[keyPath: keyPath] }
    }

    /// `observe`, for a property that is named by a string, in both spellings of flags.
    public func observe(
        keyPath: String, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (KeyValueObservedChange<any Sendable>) -> Void
    ) -> KeyValueObservation {
        let handler: @Sendable (Self, KeyValueObservedChange<any Sendable>) -> Void = { _, change in changeHandler(change) }
        return subscribe(ObservedKey(keyPath), options, Self.untyped(handler)) { value(forKey: keyPath) }
    }

    /// Announces that the property of a subclass is about to change.
    public func willChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        observed?.willChange(Self.observedKey(keyPath)) { self[keyPath: keyPath] }
    }

    /// Announces that the property of a subclass has changed.
    public func didChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        observed?.didChange(Self.observedKey(keyPath)) { self[keyPath: keyPath] }
        core.deliverChanges()
    }

    private func subscribe(
        _ key: ObservedKey, _ options: KeyValueObservingOptions, _ handler: @escaping Registration.Handler, read: () -> any Sendable
    ) -> KeyValueObservation {
        let mailbox = openObservation().mailbox
        mailbox.state.withLock { $0.subscribing += 1 }
        return mailbox.subscribe(key, options, read: read, handler: handler)
    }

    /// A key path to an inherited property differs from the one to the same property of the base class.
    private static func observedKey(_ keyPath: PartialKeyPath<Self>) -> ObservedKey {
        switch keyPath {
        case \Self.operations: .operations
        case \Self.operationCount: .operationCount
        case \Self.isSuspended: .isSuspended
        case \Self.maxConcurrentOperationCount: .maxConcurrentOperationCount
        case \Self.name: .name
        default: .path(keyPath)
        }
    }
}

extension BeyondFoundation where Self: OperationQueue {
    /// Calls `body` when observers have been told every change that has happened by now: at once, or on the thread that tells them.
    public func whenChangesAreTold(_ body: @escaping @Sendable () -> Void) {
        guard let mailbox = observed else { return body() }
        mailbox.state.withLock { $0.record(.mark(body)) }
        mailbox.deliver()
    }
}

extension OperationQueue {
    var observed: Mailbox? { core.state.withLock { $0.observation }?.mailbox }

    /// The mailboxes of this queue and its progress. Changes are recorded in them from now on.
    func openObservation() -> Observation {
        while true {
            let existing = core.state.withLock { $0.observation }
            // That of an engine's main queue may belong to an object that has gone.
            if let existing, existing.mailbox.owner === self { return existing }
            let made = Observation(queue: self)
            let isOurs = core.state.withLock { state in
                guard state.observation === existing else { return false }
                state.observation = made
                core.isObserved.store(true, ordering: .relaxed)
                return true
            }
            if isOurs { return made }
        }
    }

    private func observedValue(_ key: ObservedKey) -> (any Sendable)? {
        switch key {
        case .operations: operations
        case .operationCount: operationCount
        case .isSuspended: isSuspended
        case .maxConcurrentOperationCount: maxConcurrentOperationCount
        case .name: name
        default: nil
        }
    }

    /// The value of an observable property by its name; nil for a name that is not known, and for a property that is nil.
    public func value(forKey key: String) -> (any Sendable)? { observedValue(ObservedKey(key)) }

    /// Announces that a property of a subclass is about to change, for observers by string.
    public func willChangeValue(forKey key: String) {
        observed?.willChange(ObservedKey(key)) { value(forKey: key) }
    }

    /// Announces that a property of a subclass has changed.
    public func didChangeValue(forKey key: String) {
        observed?.didChange(ObservedKey(key)) { value(forKey: key) }
        core.deliverChanges()
    }
}

extension OperationQueue.Progress {
    /// Calls `changeHandler` when `totalUnitCount`, `completedUnitCount` or `fractionCompleted` changes, until the returned token is
    /// invalidated or goes. As for the queue that it is the progress of.
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<OperationQueue.Progress, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (OperationQueue.Progress, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        let key: ObservedKey =
            switch keyPath {
            case \.totalUnitCount: .totalUnitCount
            case \.completedUnitCount: .completedUnitCount
            case \.fractionCompleted: .fractionCompleted
            default: .path(keyPath)
            }
        // Without its queue nothing changes any more.
        let mailbox = core.queue?.openObservation().progress ?? Mailbox(owner: self)
        mailbox.state.withLock { $0.subscribing += 1 }
        let read: () -> any Sendable = { self[keyPath: keyPath] }
        return mailbox.subscribe(key, options, read: read, handler: OperationQueue.Progress.untyped(changeHandler))
    }
}
