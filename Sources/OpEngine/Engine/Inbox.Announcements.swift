import CPlatform
import Glibc
import Synchronization

extension Inbox {
    /// Tells a host with a loop of its own that there is something to drain: once, and again after it has drained.
    ///
    /// Whoever puts something into the inbox calls `announce` after that; whoever drains calls `begin` before, and `end` after that.
    final class Announcements: Sendable {
        /// Somebody wants to be told. Read by everyone who puts something in, after that; written before the inbox is looked at.
        private let isWanted = Atomic<Bool>(false)
        /// It was announced that there is something, and nobody has begun to drain since.
        private let isAnnounced = Atomic<Bool>(false)
        private let listeners = Guarded(Listeners())

        private struct Listeners {
            var descriptor: Int32?
            var onWake: (@Sendable () -> Void)?
        }

        deinit {
            if let descriptor = listeners.withLock({ $0.descriptor }) { Glibc.close(descriptor) }
        }

        @inline(__always)
        func announce() {
            if isWanted.load(ordering: .sequentiallyConsistent) { announceToListeners() }
        }

        @inline(never)
        private func announceToListeners() {
            if isAnnounced.exchange(true, ordering: .sequentiallyConsistent) { return }
            let (descriptor, onWake) = listeners.withLock { ($0.descriptor, $0.onWake) }
            if let descriptor { cplatform_event_signal(descriptor) }
            onWake?()
        }

        /// The inbox is being drained: what comes meanwhile is found without being announced.
        @inline(__always)
        func begin() {
            if isWanted.load(ordering: .relaxed) { withdraw(andKeepSilent: true) }
        }

        /// What comes from here on is announced; what has come before is to be looked for after this.
        @inline(__always)
        func end() {
            if isWanted.load(ordering: .relaxed) { withdraw(andKeepSilent: false) }
        }

        @inline(never)
        private func withdraw(andKeepSilent isSilent: Bool) {
            if let descriptor = listeners.withLock({ $0.descriptor }) { cplatform_event_clear(descriptor) }
            // After it was cleared, so that it stays readable when somebody announces in between.
            isAnnounced.store(isSilent, ordering: .sequentiallyConsistent)
        }

        var onWake: (@Sendable () -> Void)? {
            get { listeners.withLock { $0.onWake } }
            set {
                let replaced = listeners.withLock { listeners in
                    defer { listeners.onWake = newValue }
                    return listeners.onWake
                }
                // Outside the lock: it may be the last reference to what it captures.
                withExtendedLifetime(replaced) {}
                if newValue != nil { isWanted.store(true, ordering: .sequentiallyConsistent) }
            }
        }

        /// Made when first asked for.
        var descriptor: Int32 {
            let (descriptor, isNew) = listeners.withLock { listeners in
                if let descriptor = listeners.descriptor { return (descriptor, false) }
                let made = cplatform_event_make()
                if made >= 0 { listeners.descriptor = made }
                return (made, true)
            }
            if descriptor < 0 { fatalError("opscript: cannot make an event descriptor: error \(-descriptor)") }
            if isNew {
                isWanted.store(true, ordering: .sequentiallyConsistent)
                isAnnounced.store(false, ordering: .sequentiallyConsistent)
            }
            return descriptor
        }
    }

    /// For a host whose loop waits for file descriptors: readable while there is something to `drain()`, and perhaps once too often.
    ///
    /// It is an eventfd of the inbox's own, made when it is first asked for, and closed with the inbox. Wait for it to become
    /// readable, with epoll, poll, or whatever the loop uses, and call `drain()` on the inbox's thread; do not read from it.
    public var fileDescriptor: Int32 {
        let descriptor = announcements.descriptor
        announceIfNotEmpty()
        return descriptor
    }

    /// For a host whose loop takes closures: called when there is something to `drain()`, once until the next `drain()` or `run`.
    ///
    /// It is called on the thread that put it there, with no lock held, perhaps once too often, and at once if there is something now.
    /// It must be cheap and is to make the inbox's thread call `drain()`: `{ DispatchQueue.main.async { _ = inbox.drain() } }`.
    public var onWake: (@Sendable () -> Void)? {
        get { announcements.onWake }
        set {
            announcements.onWake = newValue
            endDraining()
        }
    }

    /// From now on it is announced what comes, and what is left.
    func endDraining() {
        announcements.end()
        announceIfNotEmpty()
    }

    private func announceIfNotEmpty() {
        if !isEmpty { announcements.announce() }
    }
}

extension Inbox {
    /// `run(until:deadline:)` until the deadline, or until nothing can come any more.
    ///
    /// - Returns: `.timedOut`, or `.stalled` without a deadline.
    public func run(until deadline: ContinuousClock.Instant) -> Outcome { run(until: { false }, deadline: deadline) }

    /// Runs what comes, until nothing can come any more: for ever when the engine's host may add operations.
    public func run() { _ = run(until: { false }) }
}
