import OpPlatform
import Synchronization

extension KeyValueObserving where Self: OperationQueue {
    /// Calls `changeHandler` when the property changes, until the returned token is invalidated or deallocated.
    ///
    /// Observable properties are `operations`, `operationCount`, `isSuspended`, `maxConcurrentOperationCount`, `name`, those of `progress`,
    /// such as `\.progress.fractionCompleted`, and those that a subclass announces. Traps with the name of any other. The changes of one
    /// queue are delivered in order, one at a time, with no lock held, and on the same threads as those of operations. The changes of its
    /// progress have an order of their own. Observing `operations` costs O(operations) for each change.
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<OperationQueue, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (Self, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        subscribe(OperationQueue.observableKey(keyPath, isInherited: true), options, Self.untyped(changeHandler)) { $0[keyPath: keyPath] }
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

    /// Announces that a property of a subclass is about to change.
    public func willChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        observed?.willChange(Self.observedKey(keyPath)) { self[keyPath: keyPath] }
    }

    /// Announces that a property of a subclass has changed.
    public func didChangeValue<Value: Sendable>(for keyPath: KeyPath<Self, Value>) {
        observed?.didChange(Self.observedKey(keyPath)) { self[keyPath: keyPath] }
        core.deliverChanges()
    }

    private static func observableKey(_ keyPath: PartialKeyPath<Self>, isInherited: Bool) -> ObservedKey {
        checked(
            observedKey(keyPath), keyPath, isInherited: isInherited,
            not: [
                ("qualityOfService", \Self.qualityOfService), ("underlyingQueue", \Self.underlyingQueue), ("progress", \Self.progress),
                ("description", \Self.description), ("debugDescription", \Self.debugDescription), ("hash", \Self.hash),
                ("engine", \Self.engine), ("dependencyPolicy", \Self.dependencyPolicy), ("rateLimit", \Self.rateLimit),
                ("maxPendingOperationCount", \Self.maxPendingOperationCount), ("name", \Self.name), ("operations", \Self.operations),
            ])
    }

    /// Maps key paths to inherited properties to keys. Such a key path differs from the one to the same property of the base class.
    private static func observedKey(_ keyPath: PartialKeyPath<Self>) -> ObservedKey {
        switch keyPath {
        case \Self.operations: .operations
        case \Self.operationCount: .operationCount
        case \Self.isSuspended: .isSuspended
        case \Self.maxConcurrentOperationCount: .maxConcurrentOperationCount
        case \Self.name: .name
        default: OperationQueueProgress.Property(keyPath, from: \Self.progress).map { .progress($0) } ?? .path(keyPath)
        }
    }
}

extension BeyondFoundation where Self: OperationQueue {
    /// Calls `body` after all changes up to now, except those of `progress`, have been delivered to observers: immediately, or on the thread that
    /// delivers them.
    public func whenChangesAreTold(_ body: @escaping @Sendable () -> Void) {
        guard let mailbox = observed else { return body() }
        mailbox.state.withLock { $0.record(.mark(body)) }
        mailbox.deliver()
    }
}

extension OperationQueue {
    static let observableNames =
        ["operations", "operationCount", "isSuspended", "maxConcurrentOperationCount", "name"]
        + OperationQueueProgress.Property.allCases.map { "progress.\($0.rawValue)" }

    static let untoldNames = ["progress", "qualityOfService", "underlyingQueue"]

    func expectSubscription() -> Mailbox {
        let mailbox = openObservation().mailbox
        mailbox.state.withLock { $0.subscribing += 1 }
        return mailbox
    }

    var observed: Mailbox? { core.state.withLock { $0.observation }?.mailbox }

    /// The mailboxes of this queue and its progress, which are created if necessary. All later changes are recorded in them, and those of the
    /// groups that execute in this queue, for its progress.
    func openObservation() -> Observation {
        let (observation, isNew) = openOwnObservation()
        // Not recursive, because groups may be nested deeply.
        var pending: [OperationQueue] = isNew ? [self] : []
        while let queue = pending.popLast() {
            for group in queue.core.state.withLock({ $0.hasGroups ? $0.executingGroups : [] }) where group.openOwnObservation().isNew {
                pending.append(group)
            }
        }
        return observation
    }

    private func openOwnObservation() -> (observation: Observation, isNew: Bool) {
        while true {
            let existing = core.state.withLock { $0.observation }
            // The mailboxes of a main queue may belong to an earlier queue object that has been deallocated.
            if let existing, existing.mailbox.owner === self { return (existing, false) }
            let made = Observation(queue: self)
            let isOurs = core.state.withLock { state in
                guard state.observation === existing else { return false }
                state.observation = made
                core.set(.observed)
                return true
            }
            if isOurs {
                if core.state.withLock({ $0.hasGroups }) { made.expectGroups(at: core.fractionWithGroups) }
                return (made, true)
            }
        }
    }

    private func observedValue(_ key: ObservedKey) -> (any Sendable)? {
        switch key {
        case .operations: operations
        case .operationCount: operationCount
        case .isSuspended: isSuspended
        case .maxConcurrentOperationCount: maxConcurrentOperationCount
        case .name: name
        case .progress(let property): progress.value(of: property)
        default: nil
        }
    }

    /// The value of an observable property, looked up by name. Nil if the name is unknown or the property is nil.
    public func value(forKey key: String) -> (any Sendable)? { observedValue(ObservedKey(key)) }

    /// Announces that a property of a subclass is about to change, for observers that use strings.
    public func willChangeValue(forKey key: String) {
        observed?.willChange(ObservedKey(key)) { value(forKey: key) }
    }

    /// Announces that a property of a subclass has changed, for observers that use strings.
    public func didChangeValue(forKey key: String) {
        observed?.didChange(ObservedKey(key)) { value(forKey: key) }
        core.deliverChanges()
    }
}

extension OperationQueueProgress {
    /// The properties. All of them can be observed.
    enum Property: String, CaseIterable {
        case totalUnitCount, completedUnitCount, fractionCompleted, isFinished, isIndeterminate

        /// The property to which `keyPath` leads, from an object whose progress is at `progress`.
        init?<Root>(_ keyPath: PartialKeyPath<Root>, from progress: PartialKeyPath<Root>) {
            guard let found = Property.allCases.first(where: { progress.appending(path: $0.keyPath) == keyPath }) else { return nil }
            self = found
        }

        private var keyPath: PartialKeyPath<OperationQueueProgress> {
            switch self {
            case .totalUnitCount: \.totalUnitCount
            case .completedUnitCount: \.completedUnitCount
            case .fractionCompleted: \.fractionCompleted
            case .isFinished: \.isFinished
            case .isIndeterminate: \.isIndeterminate
            }
        }
    }

    /// Calls `changeHandler` when the property changes, until the returned token is invalidated or deallocated. Order and threads are the
    /// same as for the queue's properties.
    public func observe<Value: Sendable>(
        _ keyPath: KeyPath<OperationQueueProgress, Value>, options: KeyValueObservingOptions = [],
        changeHandler: @escaping @Sendable (OperationQueueProgress, KeyValueObservedChange<Value>) -> Void
    ) -> KeyValueObservation {
        guard let property = Property(keyPath, from: \.self) else {
            trap(
                OperationError.cannotBeObserved(
                    property: "\(keyPath)", object: "a queue's progress", observable: Property.allCases.map(\.rawValue)))
        }
        return subscribe(property, options, Self.untyped(changeHandler))
    }

    func subscribe(
        _ property: Property, _ options: KeyValueObservingOptions, _ handler: @escaping Registration.Handler
    ) -> KeyValueObservation {
        // If the queue object has been deallocated, nothing changes any more.
        let mailbox = core.queue?.openObservation().progress ?? Mailbox(owner: self)
        mailbox.state.withLock { $0.subscribing += 1 }
        // The fraction may not have been observed until now.
        core.recordFractionOfGroups()
        return mailbox.subscribe(
            .progress(property), options, of: self, read: Self.untyped { $0.value(of: property) }, handler: handler)
    }

    func value(of property: Property) -> any Sendable {
        switch property {
        case .totalUnitCount: totalUnitCount
        case .completedUnitCount: completedUnitCount
        case .fractionCompleted: fractionCompleted
        case .isFinished: isFinished
        case .isIndeterminate: isIndeterminate
        }
    }
}
