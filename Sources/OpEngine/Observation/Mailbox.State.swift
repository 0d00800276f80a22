extension Mailbox {
    /// A change or an event that waits to be delivered.
    struct Entry {
        /// The entry's number in its mailbox.
        let sequence: UInt64
        let content: Content

        enum Content {
            /// The engine changed a value, and knows both.
            case exact(key: ObservedKey, old: any Sendable, new: any Sendable)
            /// The engine changed a flag which a subclass may see differently.
            case flag(key: ObservedKey, new: Bool)
            /// A subclass says that a value will change.
            case announcedPrior(key: ObservedKey, old: any Sendable)
            /// A subclass says that a value has changed. `old` and `began` are those of its `willChangeValue`, if that was seen.
            case announced(key: ObservedKey, old: (any Sendable)?, began: UInt64?, new: any Sendable)
            case event(OperationEvent.Record)
            /// Somebody wants to know that everything before this has been told.
            case mark(@Sendable () -> Void)
        }

        var key: ObservedKey? {
            switch content {
            case .exact(let key, _, _), .flag(let key, _), .announcedPrior(let key, _), .announced(let key, _, _, _): key
            case .event, .mark: nil
            }
        }
    }

    /// A `willChangeValue` whose `didChangeValue` has not come.
    struct Announcement {
        let key: ObservedKey
        let thread: Int32
        let sequence: UInt64
        let old: any Sendable
    }

    /// What a mailbox knows, guarded by its lock. Every method decides; none calls out.
    struct State {
        var registrations: [Registration] = []
        /// Subscriptions that have begun and are not yet registered.
        var subscribing = 0
        /// The queue whose observers of events want to know about the operation.
        var tracedCore: OperationQueue.Core?
        /// Of a queue whose `operations` are observed: those that were told last.
        var lastOperations: [Operation] = []
        /// Counts everything that an initial value could miss.
        private(set) var sequence: UInt64 = 0
        private var entries: [Entry] = []
        private var taken = 0
        private var isDelivering = false
        private var announcements: [Announcement] = []
        /// Flags of which a subclass has an opinion of its own.
        private var overridden: Set<ObservedKey> = []
        /// What was last said about a flag.
        private var published: [ObservedKey: Bool] = [:]

        /// Nobody wants anything.
        var isIdle: Bool { registrations.isEmpty && subscribing == 0 && tracedCore == nil && taken == entries.count }

        func wants(_ key: ObservedKey) -> Bool { registrations.contains { $0.key == key } }

        // MARK: Subscribing

        /// Registers unless something has changed since the value was read.
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

        /// A value changed that the engine keeps. The values are made only if somebody wants them.
        mutating func record(_ key: ObservedKey, old: @autoclosure () -> any Sendable, new: @autoclosure () -> any Sendable) {
            if wants(key) { record(.exact(key: key, old: old(), new: new())) } else { touch() }
        }

        /// A value changed that nobody observes; someone may be about to.
        mutating func touch() { sequence += 1 }

        /// - Returns: what is to be let go outside of the lock.
        mutating func willChange(_ key: ObservedKey, old: any Sendable, thread: Int32) -> Announcement? {
            touch()
            overridden.insert(key)
            announcements.append(Announcement(key: key, thread: thread, sequence: sequence, old: old))
            // One that forgets its `didChangeValue` does not fill the memory.
            let forgotten = announcements.count > 64 ? announcements.removeFirst() : nil
            if registrations.contains(where: { $0.key == key && $0.options.contains(.prior) }) {
                record(.announcedPrior(key: key, old: old))
            }
            return forgotten
        }

        /// - Returns: what is to be let go outside of the lock.
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

        /// False: somebody delivers already, or there is nothing.
        mutating func beginDelivering() -> Bool {
            guard !isDelivering, taken < entries.count else { return false }
            isDelivering = true
            return true
        }

        /// The next entry and whom it is for; nil when the delivery ends: there is none, or it is for someone whose first call has not
        /// returned, who will go on.
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

        /// The entries that have been delivered; to be let go outside of the lock.
        mutating func takeDelivered() -> [Entry] {
            guard taken > 0, taken == entries.count || taken >= 64 else { return [] }
            let delivered = Array(entries[..<taken])
            entries.removeFirst(taken)
            taken = 0
            return delivered
        }

        /// What observers are told about a flag that the engine changed, when a subclass's getter says `seen`; nil: nothing.
        mutating func resolve(_ key: ObservedKey, new: Bool, seen: Bool) -> (old: Bool, new: Bool)? {
            // The subclass is about to say it itself.
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

        /// What a registration is told of an announced change; nil: it knows that.
        mutating func oldValue(
            for registration: Registration, old: (any Sendable)?, began: UInt64?, new: any Sendable
        ) -> (any Sendable)? {
            if let flag = new as? Bool { published[registration.key] = flag }
            if let began, began >= registration.since { return old }
            return areEqual(registration.last, new) ? nil : registration.last
        }
    }
}
