import Synchronization

extension Operation {
    /// Announces that a value is about to change. A subclass that overrides the getter calls this method before the change, and observers
    /// receive the getter's value as the old value.
    ///
    /// Accepts both spellings of a flag: `isFinished` and `finished`. For a subclass's own properties, see `value(forKey:)`.
    public func willChangeValue(forKey key: String) {
        observedMailbox?.willChange(ObservedKey(key)) { value(forKey: key) }
    }

    /// Announces that a value has changed. A subclass that overrides the getter calls this method after the change. The engine reads the
    /// getter and acts on the new value, and observers are notified.
    public func didChangeValue(forKey key: String) {
        let observed = ObservedKey(key)
        observedMailbox?.didChange(observed) { value(forKey: key) }
        react(toChangeOf: observed)
    }

    func react(toChangeOf key: ObservedKey) {
        if mayChange(.isReady, with: key) { becomeReady() }
        if mayChange(.isFinished, with: key), !loadState().has(State.finished) && isFinished { end() }
        if mayChange(.queuePriority, with: key), OverriddenMethods.hasOwnSettings(self) { adoptOwnSettings() }
        deliverChanges()
    }

    /// Whether a change of `key` may change the value of `other`: because it is the same key, because the class declares it, or because `key`
    /// is a subclass's own. A class may declare that by a function such as `keyPathsForValuesAffectingIsFinished`, which cannot be found.
    private func mayChange(_ other: ObservedKey, with key: ObservedKey) -> Bool {
        key == other || key.isOfSubclass
            || OverriddenMethods.declaresDependentKeys(self)
                && DependentKeys.keys(affecting: other, in: type(of: self)).contains(key)
    }

    /// Posts an operation that is back in its queue, if its getter says now that it is ready.
    func becomeReady() {
        // This fence orders the subclass's write before the read below. It pairs with the one in `postponeUntilReady`.
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        if loadState().canBePosted && isReady { retryPostponed() }
    }

    /// Evaluates the getter of an operation that has become ready and is in no queue, as Foundation does. A subclass may start its work there.
    func askOutsideOfQueues() {
        let state = loadState()
        let isElsewhere = state.has(State.linked | State.started | State.executing | State.finished)
        if state.isReady && !isElsewhere && !OverriddenMethods.isPlain(self) { _ = isReady }
    }

    /// Copies the priority and the quality of service that a subclass's getters return.
    func adoptOwnSettings() {
        let (priority, quality) = (queuePriority, qualityOfService)
        if priority != loadState().priority { storedPriority = priority }
        if quality != requestedQualityOfService { requestedQualityOfService = quality }
    }
}
