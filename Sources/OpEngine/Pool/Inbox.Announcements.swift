import CPlatform
import Glibc
import OpPlatform
import Synchronization

extension Inbox {
    /// Tells a host with its own event loop that the inbox needs draining: once, and again after the host has drained.
    ///
    /// A producer calls `announce` after it has put something into the inbox. A consumer calls `begin` before it drains and `end`
    /// afterwards.
    final class Announcements: Sendable {
        /// Whether a host has subscribed. Producers read the flag after filling the inbox; a subscriber sets it before looking at the
        /// inbox. At least one of the two therefore sees the other's write.
        private let isWanted = Atomic<Bool>(false)
        /// Whether arrivals are not announced: an announcement was made, or a drain has begun, and no drain has ended since.
        private let isAnnounced = Atomic<Bool>(false)
        private let listeners = Guarded(Listeners())

        /// Closures instead of a stream, so that a program that uses no stream need not contain Swift's concurrency library.
        struct Listener {
            let wake: @Sendable () -> Void
            /// Called when nothing will arrive any more.
            let end: @Sendable () -> Void
        }

        private struct Listeners {
            var descriptor: Int32?
            var onWake: (@Sendable () -> Void)?
            var others: [Int: Listener] = [:]
            var lastNumber = 0
            /// Whether nothing will arrive any more.
            var isClosed = false
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
            let (descriptor, onWake, others) = listeners.withLock { ($0.descriptor, $0.onWake, $0.others) }
            if let descriptor { cplatform_event_signal(descriptor) }
            onWake?()
            for listener in others.values { listener.wake() }
        }

        /// Begins a drain. Arrivals during the drain are not announced, because the consumer finds them.
        @inline(__always)
        func begin() {
            if isWanted.load(ordering: .relaxed) { withdraw(andKeepSilent: true) }
        }

        /// Ends a drain. Later arrivals are announced again. The caller must check for earlier arrivals after this call.
        @inline(__always)
        func end() {
            if isWanted.load(ordering: .relaxed) { withdraw(andKeepSilent: false) }
        }

        @inline(never)
        private func withdraw(andKeepSilent isSilent: Bool) {
            if let descriptor = listeners.withLock({ $0.descriptor }) { cplatform_event_clear(descriptor) }
            // Set after the descriptor was cleared, so that a concurrent announcement leaves the descriptor readable.
            isAnnounced.store(isSilent, ordering: .sequentiallyConsistent)
        }

        var onWake: (@Sendable () -> Void)? {
            get { listeners.withLock { $0.onWake } }
            set {
                let replaced = listeners.withLock { listeners in
                    defer { listeners.onWake = newValue }
                    return listeners.onWake
                }
                // Released outside of the lock: this may be the last reference to objects that the closure captures.
                withExtendedLifetime(replaced) {}
                if newValue != nil { isWanted.store(true, ordering: .sequentiallyConsistent) }
            }
        }

        /// Adds a listener, which is called as `onWake` is. Returns the number for `removeListener`; nil if nothing will arrive any more.
        func add(_ listener: Listener) -> Int? {
            let number = listeners.withLock { listeners -> Int? in
                if listeners.isClosed { return nil }
                listeners.lastNumber += 1
                listeners.others[listeners.lastNumber] = listener
                return listeners.lastNumber
            }
            if number != nil { isWanted.store(true, ordering: .sequentiallyConsistent) }
            return number
        }

        func removeListener(_ number: Int) {
            let removed = listeners.withLock { $0.others.removeValue(forKey: number) }
            withExtendedLifetime(removed) {}
        }

        /// Forgets all listeners: nothing will arrive any more.
        func close() {
            let ended = listeners.withLock { listeners in
                defer {
                    listeners.onWake = nil
                    listeners.others = [:]
                    listeners.isClosed = true
                }
                return listeners
            }
            for listener in ended.others.values { listener.end() }
        }

        /// The eventfd, which is created on first use. -1 if the process has no descriptor left.
        var descriptor: Int32 {
            let (descriptor, isNew) = listeners.withLock { listeners in
                if let descriptor = listeners.descriptor { return (descriptor, false) }
                let made = cplatform_event_make()
                if made >= 0 { listeners.descriptor = made }
                return (made, true)
            }
            if descriptor < 0 { return -1 }
            if isNew {
                isWanted.store(true, ordering: .sequentiallyConsistent)
                isAnnounced.store(false, ordering: .sequentiallyConsistent)
            }
            return descriptor
        }
    }

    /// A file descriptor for hosts with a poll-based event loop. Readable while there is something to `drain()`; spurious readiness is
    /// possible.
    ///
    /// The descriptor is an eventfd that belongs to the inbox, is created on first use, and is closed with the inbox. It is -1 if the process has no
    /// descriptor left; a later read tries again. Wait for it to become
    /// readable (with epoll, poll or the loop's own means), and then call `drain()` on the inbox's thread. Do not read from it.
    public var fileDescriptor: Int32 {
        let descriptor = announcements.descriptor
        announceIfNotEmpty()
        return descriptor
    }

    /// A closure for hosts whose event loop accepts closures. Called when there is something to `drain()`, once until the next `drain()` or
    /// `run`; spurious calls are possible.
    ///
    /// The closure is called on the thread that filled the inbox, with no lock held, and immediately when it is set if the inbox is not
    /// empty. It must be cheap, and must make the inbox's thread call `drain()`, for example: `{ DispatchQueue.main.async { _ =
    /// inbox.drain() } }`.
    public var onWake: (@Sendable () -> Void)? {
        get { announcements.onWake }
        set {
            announcements.onWake = newValue
            endDraining()
        }
    }

    /// An element for each time that there is something to `drain()`, with the same rules as for `onWake`. Several loops may take elements
    /// from streams of their own. `closeAnnouncements` ends the streams.
    package func wakes() -> AsyncStream<Void> {
        // One element that was not taken yet stands for all later ones.
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        guard let number = announcements.add(Announcements.Listener(wake: { continuation.yield() }, end: { continuation.finish() })) else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak announcements] _ in announcements?.removeListener(number) }
        endDraining()
        return stream
    }

    /// Makes no more announcements until the next drain ends.
    package func keepSilent() { announcements.begin() }

    /// Ends the streams of `wakes`, and calls the closure of `onWake` no more.
    package func closeAnnouncements() { announcements.close() }

    /// Announces what is left in the inbox and everything that arrives later.
    package func endDraining() {
        announcements.end()
        announceIfNotEmpty()
    }

    private func announceIfNotEmpty() {
        if !isEmpty { announcements.announce() }
    }
}

extension Inbox {
    /// Runs arriving jobs and operations until the deadline. See `run(until:deadline:)`.
    ///
    /// - Returns: `.timedOut`.
    public func run(until deadline: ContinuousClock.Instant) -> Outcome { run(until: { false }, deadline: deadline) }

    /// Runs arriving jobs and operations until nothing can arrive any more. Except in a simulation, never returns if the engine's host may add
    /// operations.
    public func run() { _ = run(until: { false }) }
}
