import CPlatform
import OpPlatform

/// The observers of one object and the changes that are waiting for them.
///
/// Changes are recorded in the order in which they happen, while the lock of the changed value is held. Changes are delivered later with no
/// lock held, by one thread at a time: the first thread that finds the mailbox idle after a change. The mailbox's lock is the innermost of
/// all, except for that of a `BackReference`.
@safe final class Mailbox: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `state` has a lock, and `owner` is weak and written once, before the mailbox is shared.
    let state: Guarded<State>
    private(set) weak var owner: AnyObject?
    /// The owner's class, if it may declare dependent keys.
    private let declaring: (any Observed.Type)?

    /// - Parameter overridden: the flags for which the owner's class has its own getters.
    init(owner: AnyObject, overridden: Set<ObservedKey> = [], declaring: (any Observed.Type)? = nil) {
        self.owner = owner
        self.declaring = declaring
        state = Guarded(State(overridden: overridden))
    }

    // MARK: Subscribing

    /// Reads the initial value and registers an observer as one step: calls `read` again if something changed in between. Makes the initial
    /// call of the handler if it was requested.
    ///
    /// The caller must have incremented `subscribing` and ensured that changes are recorded.
    func subscribe(
        _ key: ObservedKey, _ options: KeyValueObservingOptions, of object: AnyObject, read: @escaping Registration.Reader,
        handler: @escaping Registration.Handler
    ) -> KeyValueObservation {
        // Limits the attempts, because a getter that announces changes itself would make this loop run for ever.
        for attempt in 0... {
            let before = state.withLock { $0.sequence }
            let value = Mailbox.asRecorded { read(object) }
            let registration = Registration(key: key, options: options, initial: value, read: read, handler: handler)
            guard state.withLock({ $0.register(registration, ifUnchangedSince: attempt < 1000 ? before : nil) }) else { continue }
            if options.contains(.initial) {
                if let owner { handler(owner, registration.notice(old: nil, new: value)) }
                state.withLock { _ in registration.isAwaitingInitial = false }
                deliver()
            }
            return KeyValueObservation(mailbox: self, registration: registration)
        }
        fatalError("opscript bug: a subscription ended without a result")
    }

    /// Calls `read` while the getters return the recorded values. See `Operation.allDependenciesFinished`.
    private static func asRecorded<Value>(_ read: () -> Value) -> Value {
        let context = ThreadContext.current, before = context.readsAsRecorded
        context.readsAsRecorded = true
        defer { context.readsAsRecorded = before }
        return read()
    }

    func remove(_ registration: Registration) {
        let removed = state.withLock { $0.unregister(registration) }
        withExtendedLifetime(removed) {}
    }

    // MARK: Announcements

    /// Records the announcement for `key` and for the keys that depend on it.
    func willChange(_ key: ObservedKey, read: () -> any Sendable) {
        recordWillChange(key, old: Mailbox.asRecorded(read))
        for observer in dependents(of: key) where isDeclared(observer.key, toDependOn: key) {
            // The getter may announce changes itself, so it is asked only if necessary.
            let (isWanted, known) = state.withLock { ($0.wantsOldValue(of: observer.key), observer.last) }
            recordWillChange(observer.key, old: isWanted ? value(for: observer) ?? known : known)
        }
        deliver()
    }

    /// Records the change of `key` and of the keys that depend on it. The caller must call `deliver`.
    func didChange(_ key: ObservedKey, read: () -> any Sendable) {
        recordDidChange(key, to: Mailbox.asRecorded(read))
        for observer in dependents(of: key) {
            guard let new = value(for: observer) else { continue }
            if isDeclared(observer.key, toDependOn: key) {
                recordDidChange(observer.key, to: new)
            } else {
                // A subclass may evaluate its conditions whenever it may have become ready.
                let mayBecomeReady = observer.key == .isReady && (owner as? Operation)?.loadState().has(Operation.State.started) == false
                state.withLock { $0.mayHaveChanged(observer.key, to: new, isAlwaysTold: mayBecomeReady) }
            }
        }
    }

    /// One observer of each key whose value may depend on that of `key`: because the class declares it, or because the values of both keys
    /// are those of a subclass, which may declare it in a way that cannot be found.
    private func dependents(of key: ObservedKey) -> [Registration] {
        let (others, overridden) = state.withLock { ($0.observers(exceptOf: key), $0.overridden) }
        return others.filter { observer in
            key.isOfSubclass && (observer.key.isOfSubclass || overridden.contains(observer.key))
                || isDeclared(observer.key, toDependOn: key)
        }
    }

    private func isDeclared(_ key: ObservedKey, toDependOn other: ObservedKey) -> Bool {
        declaring.map { DependentKeys.keys(affecting: key, in: $0).contains(other) } ?? false
    }

    private func value(for observer: Registration) -> (any Sendable)? {
        owner.map { owner in Mailbox.asRecorded { observer.read(owner) } }
    }

    private func recordWillChange(_ key: ObservedKey, old: any Sendable) {
        let forgotten = state.withLock { $0.willChange(key, old: old, thread: cplatform_thread_id()) }
        withExtendedLifetime(forgotten) {}
    }

    private func recordDidChange(_ key: ObservedKey, to new: any Sendable) {
        // Released outside of the lock: the announcement may hold the last reference to the old value, whose `deinit` is foreign code.
        let announcement = state.withLock { $0.didChange(key, new: new, thread: cplatform_thread_id()) }
        withExtendedLifetime(announcement) {}
    }

    /// Records a change of a value that the engine stores, while the lock of that value is held. Evaluates the values only if needed.
    func record(_ key: ObservedKey, old: @autoclosure () -> any Sendable, new: @autoclosure () -> any Sendable) {
        state.withLock { $0.record(key, old: old(), new: new()) }
    }

    // MARK: Delivering

    /// Delivers the waiting entries, unless another thread is delivering. The caller must hold no lock.
    func deliver() {
        guard state.withLock({ $0.beginDelivering() }) else { return }
        let owner = self.owner
        while let (entry, receivers) = state.withLock({ $0.next() }) {
            if let owner { deliver(entry, to: receivers, of: owner) }
            let delivered = state.withLock { $0.takeDelivered() }
            withExtendedLifetime(delivered) {}
        }
    }

    private func deliver(_ entry: Entry, to receivers: [Registration], of owner: AnyObject) {
        switch entry.content {
        case .event(let record):
            if let operation = owner as? Operation { record.send(about: operation) }
        case .mark(let body): body()
        case .announcedPrior(let key, let old):
            let isFinal = isFinal(key, old)
            for receiver in receivers where !isFinal || !areEqual(known(to: receiver).value, old) { callPrior(receiver, old: old, owner) }
        case .change(let change):
            // The getter is the same for all observers of a key.
            guard let new = change.new ?? receivers.first.map({ receiver in Mailbox.asRecorded { receiver.read(owner) } }) else { return }
            let isFinal = isFinal(change.key, new)
            let told = receivers.compactMap { receiver in
                oldValue(for: receiver, change, new, isFinal: isFinal).map { (receiver, old: $0) }
            }
            for (receiver, old) in told { callPrior(receiver, old: old, owner) }
            for (receiver, old) in told {
                let replaced = state.withLock { _ in
                    receiver.hasToldPrior = false
                    return exchange(&receiver.last, with: new)
                }
                withExtendedLifetime(replaced) {}
                call(receiver, receiver.notice(old: old, new: new), owner)
            }
            // An observer may make the operation ready without announcing it.
            if change.key == .isReady, change.new == nil { (owner as? Operation)?.becomeReady() }
        }
    }

    /// The value that an observer knows, and since when. Only the delivering thread changes it.
    private func known(to receiver: Registration) -> (value: any Sendable, since: UInt64) {
        state.withLock { _ in (receiver.last, receiver.since) }
    }

    /// The old value to pass to an observer of `change`. Nil if the observer knows `new` already, and is not called. Comparing values may call
    /// foreign code, so the caller holds no lock.
    ///
    /// - Parameter isFinal: whether the value can change no more, so that a notice without news would be one too many.
    private func oldValue(for receiver: Registration, _ change: Change, _ new: any Sendable, isFinal: Bool) -> (any Sendable)? {
        let (last, since) = known(to: receiver)
        let old = change.old.flatMap { $0.began >= since ? $0.value : nil }
        if isFinal || !change.isAlwaysTold && old == nil, areEqual(last, new) { return nil }
        return old ?? last
    }

    /// Whether the value can change no more. This holds for the flags of a finished operation, and for `isFinished` once it is true. The engine
    /// and a subclass may both say that the operation has finished, and observers are told once.
    private func isFinal(_ key: ObservedKey, _ value: any Sendable) -> Bool {
        guard key.isFlag, let operation = owner as? Operation else { return false }
        return key == .isFinished ? value as? Bool == true : operation.loadState().has(Operation.State.finished)
    }

    /// Makes the call before a change, once for each change that is told.
    private func callPrior(_ receiver: Registration, old: any Sendable, _ owner: AnyObject) {
        guard receiver.options.contains(.prior), !state.withLock({ _ in exchange(&receiver.hasToldPrior, with: true) }) else { return }
        call(receiver, receiver.notice(old: old, new: nil, isPrior: true), owner)
    }

    private func call(_ receiver: Registration, _ notice: Registration.Notice, _ owner: AnyObject) {
        guard state.withLock({ _ in receiver.isActive }) else { return }
        receiver.handler(owner, notice)
    }
}
