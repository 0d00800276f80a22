extension Mailbox {
    /// A change or an event that waits for delivery.
    struct Entry {
        /// The value of the mailbox's `sequence` when the entry was added.
        let sequence: UInt64
        let content: Content

        enum Content {
            /// The engine changed a value, and knows the old and the new one.
            case exact(key: ObservedKey, old: any Sendable, new: any Sendable)
            /// The engine changed a flag whose getter a subclass may override.
            case flag(key: ObservedKey, new: Bool)
            /// A subclass announced that a value will change.
            case announcedPrior(key: ObservedKey, old: any Sendable)
            /// A subclass announced that a value has changed. `old` and `began` come from the matching `willChangeValue`, if there was one.
            case announced(key: ObservedKey, old: (any Sendable)?, began: UInt64?, new: any Sendable)
            case event(OperationEvent.Record)
            /// Call this closure when everything before it has been delivered.
            case mark(@Sendable () -> Void)
        }

        var key: ObservedKey? {
            switch content {
            case .exact(let key, _, _), .flag(let key, _), .announcedPrior(let key, _), .announced(let key, _, _, _): key
            case .event, .mark: nil
            }
        }
    }

    /// A call of `willChangeValue` without its `didChangeValue` so far.
    struct Announcement {
        let key: ObservedKey
        let thread: Int32
        let sequence: UInt64
        let old: any Sendable
    }

    /// The state of a mailbox, guarded by its lock. Methods only decide; none of them calls out.
    struct State {
        var registrations: [Registration] = []
        /// The number of subscriptions that have begun and are not registered yet.
        var subscribing = 0
        /// The queue whose event observers receive events of the operation.
        var tracedCore: OperationQueue.Core?
        /// The value of a queue's `operations` that was recorded last. Maintained only while `operations` is observed.
        var lastOperations: [Operation] = []
        /// Counts all changes that would invalidate an initial value read earlier.
        private(set) var sequence: UInt64 = 0
        private var entries: [Entry] = []
        private var taken = 0
        private var isDelivering = false
        private var announcements: [Announcement] = []
        /// The flags for which a subclass has its own getter.
        private var overridden: Set<ObservedKey> = []
        /// The value of each flag that was delivered last.
        private var published: [ObservedKey: Bool] = [:]

        /// Whether nobody observes and nothing is waiting.
        var isIdle: Bool { registrations.isEmpty && subscribing == 0 && tracedCore == nil && taken == entries.count }

        func wants(_ key: ObservedKey) -> Bool { registrations.contains { $0.key == key } }

        // MARK: Subscribing

        /// Registers an observer unless something has changed since its initial value was read. Returns false if it did.
        mutating func register(_ registration: Registration, ifUnchangedSince before: UInt64?) -> Bool {
            if let before, before != sequence { return false }
            sequence += 1
            registration.since = sequence
            if !wants(registration.key) {
                published[registration.key] = registration.last as? Bool
                if registration.key == .operations, let operations = registration.last as? [Operation] { lastOperations = operations }
            }
            registrations.append(registration)
            subscribing -= 1
            return true
        }

        // MARK: Recording changes

        mutating func record(_ content: Entry.Content) {
            sequence += 1
            entries.append(Entry(sequence: sequence, content: content))
        }

        /// Records a change of a value that the engine stores. Evaluates the values only if the key is observed.
        mutating func record(_ key: ObservedKey, old: @autoclosure () -> any Sendable, new: @autoclosure () -> any Sendable) {
            if wants(key) { record(.exact(key: key, old: old(), new: new())) } else { touch() }
        }

        /// Notes a change of a value that nobody observes, because a subscription may be in progress.
        mutating func touch() { sequence += 1 }

        /// Notes an announcement.
        ///
        /// - Returns: a value that the caller must release outside the lock.
        mutating func willChange(_ key: ObservedKey, old: any Sendable, thread: Int32) -> Announcement? {
            touch()
            overridden.insert(key)
            announcements.append(Announcement(key: key, thread: thread, sequence: sequence, old: old))
            // Limits the memory used by announcements whose `didChangeValue` never comes.
            let forgotten = announcements.count > 64 ? announcements.removeFirst() : nil
            if registrations.contains(where: { $0.key == key && $0.options.contains(.prior) }) {
                record(.announcedPrior(key: key, old: old))
            }
            return forgotten
        }

        /// Records an announced change.
        ///
        /// - Returns: a value that the caller must release outside the lock.
        mutating func didChange(_ key: ObservedKey, new: any Sendable, thread: Int32) -> Announcement? {
            overridden.insert(key)
            let index =
                announcements.lastIndex { $0.key == key && $0.thread == thread } ?? announcements.lastIndex { $0.key == key }
            let announcement = index.map { announcements.remove(at: $0) }
            if wants(key) {
                record(.announced(key: key, old: announcement?.old, began: announcement?.sequence, new: new))
            } else {
                touch()
            }
            return announcement
        }

        // MARK: Delivering

        /// Begins a delivery. Returns false if another thread is delivering or if nothing is waiting.
        mutating func beginDelivering() -> Bool {
            guard !isDelivering, taken < entries.count else { return false }
            isDelivering = true
            return true
        }

        /// The next entry and its receivers. Nil, which ends the delivery, if no entry is left or if a receiver's initial call has not
        /// returned. The thread that makes that call then continues the delivery.
        mutating func next() -> (Entry, [Registration])? {
            guard taken < entries.count else { return stop() }
            let entry = entries[taken]
            var receivers: [Registration] = []
            if let key = entry.key {
                receivers = registrations.filter { $0.key == key && $0.since <= entry.sequence }
                if receivers.contains(where: \.isAwaitingInitial) { return stop() }
            }
            taken += 1
            return (entry, receivers)
        }

        private mutating func stop() -> (Entry, [Registration])? {
            isDelivering = false
            return nil
        }

        /// Removes delivered entries. The caller must release them outside the lock.
        mutating func takeDelivered() -> [Entry] {
            guard taken > 0, taken == entries.count || taken >= 64 else { return [] }
            let delivered = Array(entries[..<taken])
            entries.removeFirst(taken)
            taken = 0
            return delivered
        }

        /// The change of a flag that observers are told when the engine changed the flag to `new` and the getter returns `seen`. Nil if
        /// observers are not notified.
        mutating func resolve(_ key: ObservedKey, new: Bool, seen: Bool) -> (old: Bool, new: Bool)? {
            // The subclass is about to announce the change itself.
            if announcements.contains(where: { $0.key == key }) { return nil }
            if seen != new && !overridden.contains(key) && !entries[taken...].contains(where: { $0.key == key }) {
                overridden.insert(key)
            }
            let value = overridden.contains(key) ? seen : new
            let old = published[key] ?? !value
            if old == value { return nil }
            published[key] = value
            return (old, value)
        }

        /// The old value that a registration is told for an announced change. Nil if it already knows the new value.
        mutating func oldValue(
            for registration: Registration, old: (any Sendable)?, began: UInt64?, new: any Sendable
        ) -> (any Sendable)? {
            if let flag = new as? Bool { published[registration.key] = flag }
            if let began, began >= registration.since { return old }
            return areEqual(registration.last, new) ? nil : registration.last
        }
    }
}
