import Synchronization

extension Operation {
    /// A subclass that overrides a getter calls this before the value changes. Both spellings are known: `isFinished`, `finished`.
    public func willChangeValue(forKey key: String) {}

    /// A subclass that overrides a getter calls this when the value has changed; the engine looks at the getter and acts.
    public func didChangeValue(forKey key: String) {
        switch key {
        case "isFinished", "finished":
            if !loadState().has(State.finished) && isFinished { end() }
        case "isReady", "ready":
            // The subclass wrote; only then may this look. See `deferUntilReady`.
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            if loadState().has(State.deferred) && isReady { retryDeferred() }
        default: break
        }
    }
}
