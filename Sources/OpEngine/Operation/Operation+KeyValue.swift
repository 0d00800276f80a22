import Synchronization

extension Operation {
    /// A subclass that overrides a getter calls this before the value changes; observers are told the getter's value as the old one.
    /// Both spellings are known: `isFinished`, `finished`. For a property of the subclass's own, see `value(forKey:)`.
    public func willChangeValue(forKey key: String) {
        observedMailbox?.willChange(ObservedKey(key)) { value(forKey: key) }
    }

    /// A subclass that overrides a getter calls this when the value has changed; the engine looks at the getter and acts, and
    /// observers are told.
    public func didChangeValue(forKey key: String) {
        let observed = ObservedKey(key)
        observedMailbox?.didChange(observed) { value(forKey: key) }
        react(toChangeOf: observed)
    }

    /// What the engine makes of an announced change.
    func react(toChangeOf key: ObservedKey) {
        switch key {
        case .isFinished:
            if !loadState().has(State.finished) && isFinished { end() }
        case .isReady:
            // The subclass wrote; only then may this look. See `deferUntilReady`.
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            if loadState().has(State.deferred) && isReady { retryDeferred() }
        case .queuePriority: if OperationClass.hasOwnSettings(self) { adoptOwnSettings() }
        default: break
        }
        deliverChanges()
    }

    /// What a subclass's getters say of how it is to run is what counts.
    func adoptOwnSettings() {
        let (priority, quality) = (queuePriority, qualityOfService)
        if priority != loadState().priority { storedPriority = priority }
        if quality != requestedQualityOfService { requestedQualityOfService = quality }
    }
}
