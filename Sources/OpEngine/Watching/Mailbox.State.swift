extension Mailbox {
    /// A change or an event that waits for delivery.
    struct Entry {
        /// The value of the mailbox's `sequence` when the entry was added.
        let sequence: UInt64
        let content: Content

        enum Content {
            case change(Change)
            /// A subclass announced that a value will change.
            case announcedPrior(key: ObservedKey, old: any Sendable)
            case event(OperationEvent.Record)
            /// A closure to call when everything before it has been delivered.
            case mark(@Sendable () -> Void)
        }

        var key: ObservedKey? {
            switch content {
            case .change(let change): change.key
            case .announcedPrior(let key, _): key
            case .event, .mark: nil
            }
        }
    }

    /// A change of a value, or something that may have changed it.
    struct Change {
        let key: ObservedKey
        /// The value before the change, for observers that were registered by `began`. Other observers are told the value that they know.
        var old: (value: any Sendable, began: UInt64)?
        /// The value after the change. Nil for a flag of the engine whose getter a subclass overrides: the delivery asks that getter.
        var new: (any Sendable)?
        /// Whether observers that know the new value are told as well, because the value may have changed in between.
        var isAlwaysTold = true
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
        private(set) var registrations = RegistrationList()
        private var observersOfOperations = 0
        /// The number of subscriptions that have begun and are not registered yet.
        var subscribing = 0
        /// Whether the event observers of the operation's queue and engine receive its events.
        var isTraced = false
        /// The value of a queue's `operations` that was recorded last. Maintained only while `operations` is observed.
        var lastOperations: [Operation] = []
        /// Counts all changes that would invalidate an initial value read earlier.
        private(set) var sequence: UInt64 = 0
        private var entries: [Entry] = []
        private var taken = 0
        private var isDelivering = false
        private var announcements: [Announcement] = []
        /// The flags for which a subclass has its own getter. Never changes.
        let overridden: Set<ObservedKey>

        init(overridden: Set<ObservedKey>) { self.overridden = overridden }

        /// Whether the mailbox has no observers and no waiting entries.
        var isIdle: Bool { registrations.isEmpty && subscribing == 0 && !isTraced && taken == entries.count }

        func wants(_ key: ObservedKey) -> Bool { registrations.contains { $0.key == key } }

        /// One observer of each observed key except `key`, those of `isFinished` last.
        func observers(exceptOf key: ObservedKey) -> [Registration] {
            var keys: Set = [key]
            let others = registrations.filter { keys.insert($0.key).inserted }
            return others.filter { $0.key != .isFinished } + others.filter { $0.key == .isFinished }
        }

        /// Whether an observer of `key` receives old values, or calls before changes.
        func wantsOldValue(of key: ObservedKey) -> Bool {
            registrations.contains { $0.key == key && !$0.options.isDisjoint(with: [.old, .prior]) }
        }

        // MARK: Subscribing

        /// Registers an observer unless something has changed since its initial value was read. Returns false if something has.
        mutating func register(_ registration: Registration, ifUnchangedSince before: UInt64?) -> Bool {
            if let before, before != sequence { return false }
            sequence += 1
            registration.since = sequence
            if registration.key == .operations {
                if observersOfOperations == 0, let operations = registration.last as? [Operation] { lastOperations = operations }
                observersOfOperations += 1
            }
            registrations.append(registration)
            subscribing -= 1
            return true
        }

        /// Removes an observer. Returns what the caller must release outside of the lock.
        mutating func unregister(_ registration: Registration) -> (Registration?, [Operation]) {
            registration.isActive = false
            registration.isAwaitingInitial = false
            let removed = registrations.remove(registration)
            if removed?.key == .operations { observersOfOperations -= 1 }
            let operations = lastOperations
            if observersOfOperations == 0 { lastOperations = [] }
            return (removed, operations)
        }

        // MARK: Recording changes

        mutating func record(_ content: Entry.Content) {
            sequence += 1
            entries.append(Entry(sequence: sequence, content: content))
        }

        /// Records a change of a value that the engine stores. Evaluates the values only if the key is observed.
        mutating func record(_ key: ObservedKey, old: @autoclosure () -> any Sendable, new: @autoclosure () -> any Sendable) {
            if wants(key) { record(.change(Change(key: key, old: (old(), .max), new: new()))) } else { touch() }
        }

        /// Records that the engine changed a flag to `value`. `old` is its opposite by default.
        mutating func record(_ flag: ObservedKey, _ value: Bool, from old: Bool? = nil) {
            if !wants(flag) { return touch() }
            record(.change(overridden.contains(flag) ? Change(key: flag) : Change(key: flag, old: (old ?? !value, .max), new: value)))
        }

        /// Counts a change of a value that is not observed, because a subscription may be in progress.
        mutating func touch() { sequence += 1 }

        /// Records an announcement.
        ///
        /// - Returns: a value that the caller must release outside the lock.
        mutating func willChange(_ key: ObservedKey, old: any Sendable, thread: Int32) -> Announcement? {
            touch()
            announcements.append(Announcement(key: key, thread: thread, sequence: sequence, old: old))
            // Limits the memory of announcements that are never followed by `didChangeValue`.
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
            let index =
                announcements.lastIndex { $0.key == key && $0.thread == thread } ?? announcements.lastIndex { $0.key == key }
            let announcement = index.map { announcements.remove(at: $0) }
            if wants(key) {
                let old = announcement.map { (value: $0.old, began: $0.sequence) }
                record(.change(Change(key: key, old: old, new: new, isAlwaysTold: false)))
            } else {
                touch()
            }
            return announcement
        }

        /// Records that the value of `key` may have become `new`, unless a subclass is about to announce that.
        mutating func mayHaveChanged(_ key: ObservedKey, to new: any Sendable, isAlwaysTold: Bool) {
            if announcements.contains(where: { $0.key == key }) { return touch() }
            record(.change(Change(key: key, new: new, isAlwaysTold: isAlwaysTold)))
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
    }
}
