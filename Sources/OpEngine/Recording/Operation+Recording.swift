import CPlatform
import OpPlatform
import Synchronization

/// The meaning of a change of an operation's state for the recorder.
struct Milestones: OptionSet {
    let rawValue: UInt16

    static let added = Milestones(rawValue: 1)
    static let ready = Milestones(rawValue: 2)
    static let started = Milestones(rawValue: 4)
    static let cancelled = Milestones(rawValue: 8)
    static let finished = Milestones(rawValue: 16)
    /// The operation has finished without having started.
    static let skipped = Milestones(rawValue: 32)
    static let succeeded = Milestones(rawValue: 64)
    static let failed = Milestones(rawValue: 128)
    /// An attempt has failed, and there will be another.
    static let attemptFailed = Milestones(rawValue: 256)
}

extension Milestones {
    /// Empty if the operation is not recorded. Nothing changes after the operation has finished.
    @inline(__always)
    init(from old: Operation.State, to new: inout Operation.State) {
        typealias State = Operation.State
        self = []
        guard new.has(State.recorded) else { return }
        let changed = State(bits: old.bits ^ new.bits)
        if changed.has(State.linked) { insert(.added) }
        if changed.has(State.cancelled) { insert(.cancelled) }
        if new.has(State.linked) && new.isReady && !(old.isReady && old.has(State.linked)) && !new.has(State.finished) { insert(.ready) }
        if changed.has(State.started) && new.has(State.started) && !new.has(State.cancelled) { insert(.started) }
        if changed.has(State.started) && !new.has(State.started) { insert(.attemptFailed) }
        guard changed.has(State.finished) else { return }
        insert(.finished)
        if !new.has(State.started) || new.has(State.cancelled) { insert(.skipped) }
        if new.outcome == .succeeded { insert(.succeeded) } else if new.outcome == .failed { insert(.failed) }
        // `recorded` stays set, so that a name that is set later is recorded.
        if !new.has(State.observed) { new.clear(State.watched) }
    }
}

extension Operation {
    /// `transition` for an operation that is recorded and not observed. Returns nil, and changes nothing, if this is no longer the case.
    func recordedTransition<Action>(_ change: (inout State) -> Action) -> Action? {
        var old = state.load(ordering: .relaxed)
        while old & (State.recorded | State.observed) == State.recorded {
            var new = State(bits: old)
            let action = change(&new)
            if exchangeState(&old, for: &new) { return action }
        }
        return nil
    }

    /// Exchanges the state word, and records the meaning of the change if the operation is recorded. Returns false if another thread was
    /// faster; `old` is then the present state.
    func exchangeState(_ old: inout UInt64, for new: inout State) -> Bool {
        let milestones = Milestones(from: State(bits: old), to: &new)
        func change() -> Bool {
            let (exchanged, current) = state.weakCompareExchange(
                expected: old, desired: new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
            old = current
            return exchanged
        }
        if milestones.isEmpty { return change() }
        return RecordBuffer.ofThread { buffer in
            // The clock is read before the change, so that a thread that sees the change reads a later time.
            let time = buffer.begin()
            defer { buffer.end() }
            guard change() else { return false }
            write(milestones, at: time, to: buffer)
            return true
        } ?? change()
    }

    private var recordAddress: UInt64 {
        // Safety: the address is only a number. It does not change while the operation lives.
        unsafe UInt64(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque()))
    }

    /// The address if the recorder knows the operation; 0 otherwise.
    var knownAddress: UInt64 { loadState().has(State.recorded) ? recordAddress : 0 }

    /// Writes the records of a change of the state. The caller may hold the queue's lock, but not the operation's.
    func write(_ milestones: Milestones, at time: UInt64, to buffer: RecordBuffer) {
        let address = recordAddress
        if milestones.contains(.added) {
            // Safety: the queue's lock is held, and the operation is in the queue.
            let queue = unsafe core._withUnsafeGuaranteedRef { UInt64($0.recordNumber?.queue ?? 0) }
            let details = queue << 8 | UInt64(loadState().level) << 1 | (milestones.contains(.ready) ? 1 : 0)
            buffer.append(.added, address, at: time, details, ThreadContext.withCurrent { $0.operation?.knownAddress ?? 0 })
            if let name = lock.withLock({ extras?.name }) { buffer.append(.name, address, at: time, name) }
        } else if milestones.contains(.ready) {
            buffer.append(.ready, address, at: time)
        }
        if milestones.contains(.cancelled) { buffer.append(.cancelled, address, at: time) }
        if milestones.contains(.started) {
            buffer.append(.started, address, at: time)
            writeDependencies(at: time, to: buffer)
        }
        if milestones.contains(.attemptFailed) { buffer.append(.attemptFailed, address, at: time) }
        if milestones.contains(.finished) {
            if milestones.contains(.skipped) { writeDependencies(at: time, to: buffer) }
            let outcome: UInt64 = milestones.contains(.succeeded) ? 0 : milestones.contains(.failed) ? 1 : 2
            buffer.append(.finished, address, at: time, outcome)
        }
    }

    private func writeDependencies(at time: UInt64, to buffer: RecordBuffer) {
        lock.withLock {
            var edges = dependencyList.makeIterator()
            while let edge = unsafe edges.next() {
                // Safety: an edge on the list retains its dependency.
                unsafe edge.pointee.dependency?._withUnsafeGuaranteedRef { dependency in
                    guard dependency.loadState().has(State.linked) else { return }
                    buffer.append(.dependency, recordAddress, at: time, dependency.recordAddress)
                }
            }
        }
    }

    /// Records all further changes of an operation that is being added to a queue. The caller holds the queue's lock.
    func beginRecording(in core: OperationQueue.Core, _ queue: inout OperationQueue.State) {
        RecordBuffer.ofThread { buffer in
            core.beginRecording(into: buffer, &queue)
            let time = buffer.begin()
            writePlace(at: time, to: buffer)
            buffer.end()
            state.bitwiseOr(State.recorded | State.watched, ordering: .acquiringAndReleasing)
        }
    }

    /// Adds an operation to a queue with a change of its state that may be refused, and records this and all further changes. The caller
    /// holds the queue's lock.
    ///
    /// - Returns: the result of `join`. Nil, without any change, also if the operation is observed, or if no recorder is recording.
    func join(
        _ core: OperationQueue.Core, _ queue: inout OperationQueue.State, recording join: (inout State) -> Bool?
    ) -> Bool? {
        RecordBuffer.ofThread { buffer in
            core.beginRecording(into: buffer, &queue)
            let time = buffer.begin()
            defer { buffer.end() }
            var old = state.load(ordering: .relaxed)
            while old & State.watched == 0 {
                var new = State(bits: old)
                guard let isPosted = join(&new) else { return nil }
                new.set(State.recorded | State.watched)
                let milestones = Milestones(from: State(bits: old), to: &new)
                let (exchanged, current) = state.weakCompareExchange(
                    expected: old, desired: new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
                old = current
                if !exchanged { continue }
                setCore(core)
                writePlace(at: time, to: buffer)
                write(milestones, at: time, to: buffer)
                return isPosted
            }
            return nil
        } ?? nil
    }

    private func writePlace(at time: UInt64, to buffer: RecordBuffer) {
        guard let (place, isFinal) = placeToRecord else { return }
        buffer.append(isFinal ? .placeMade : .placeAdded, recordAddress, at: time, place)
    }

    /// Records that the operation has left its thread without having finished.
    @inline(never)
    func recordReturn() {
        RecordBuffer.ofThread { $0.write(.returned, recordAddress) }
    }

    /// Records a new name of an operation that was added. The caller holds no lock.
    @inline(never)
    func recordName(_ name: String?) { RecordBuffer.ofThread { $0.write(.name, recordAddress, name ?? "") } }

    /// Records an error. The caller holds no lock.
    @inline(never)
    func record(_ error: any Error) {
        RecordBuffer.ofThread { buffer in
            let text = buffer.recorder.receiver.describe(error)
            buffer.write(.error, recordAddress, text)
        }
    }

    /// Records the place where a script has made or added this operation. Has no effect unless a recorder is recording.
    ///
    /// - Parameter isFinal: whether this replaces a place that was recorded before the operation was added.
    package func recordPlace(_ place: String, isFinal: Bool) {
        RecordBuffer.ofThread { $0.write(isFinal ? .placeMade : .placeAdded, recordAddress, place) }
    }

    /// Records that a worker outside of this process has done the work of the operation, which is executing. Has no effect unless a recorder is
    /// recording.
    ///
    /// - Parameters:
    ///   - slots: the number of operations that the worker does at once.
    ///   - began: the time when it began, in seconds of the monotonic clock.
    ///   - ended: the time when it ended.
    package func recordRun(elsewhere worker: String, slots: Int, began: Double, ended: Double) {
        guard loadState().has(State.recorded) else { return }
        RecordBuffer.ofThread { buffer in
            let time = buffer.begin()
            defer { buffer.end() }
            let end = min(time, UInt64(max(0, ended) * 1e9))
            let begin = min(end, UInt64(max(0, began) * 1e9))
            buffer.append(.ranElsewhere, recordAddress, at: time, begin, end, UInt64(max(0, slots)), text: worker)
        }
    }

    /// Records that the operation, which is executing, need not do its work. Has no effect unless a recorder is recording.
    package func recordSkip() {
        if loadState().has(State.recorded) { RecordBuffer.ofThread { $0.write(.skipped, recordAddress) } }
    }
}

extension Engine {
    /// Whether a recorder is recording this engine. Costs one load.
    package var isRecorded: Bool { eventObservers.isRecorded.load(ordering: .relaxed) }
}

extension RecordBuffer {
    /// Writes a record with the present time.
    func write(_ kind: Entry.Kind, _ address: UInt64, _ text: String) {
        let time = begin()
        append(kind, address, at: time, text)
        end()
    }

    func write(_ kind: Entry.Kind, _ address: UInt64, _ first: UInt64 = 0, _ second: UInt64 = 0) {
        let time = begin()
        append(kind, address, at: time, first, second)
        end()
    }
}

extension Worker {
    /// Records that the worker begins or no longer is blocked. The caller holds the pool's lock, so that the records are in order.
    @inline(never)
    func recordBlocking(began: Bool) {
        guard engine.isRecorded else { return }
        RecordBuffer.ofThread { $0.write(began ? .workerBlocked : .workerReturned, 0, UInt64(number)) }
    }
}

/// The number under which a recorder knows a queue.
struct RecordNumber {
    let queue: Int
    /// `Recorder.serial`.
    let recorder: Int
}

extension OperationQueue.Core {
    /// Records the queue itself unless this recorder knows it. The caller holds the queue's lock.
    func beginRecording(into buffer: RecordBuffer, _ queue: inout OperationQueue.State) {
        if recordNumber?.recorder == buffer.recorder.serial { return }
        recordNumber = RecordNumber(queue: buffer.recorder.nextQueueNumber(), recorder: buffer.recorder.serial)
        if let members = queue.memberQueue, let recordNumber { buffer.write(.group, members.groupAddress, UInt64(recordNumber.queue)) }
        recordSettings(queue)
    }

    /// Records the queue's name and settings. The caller holds the queue's lock.
    @inline(never)
    func recordSettings(_ state: OperationQueue.State) {
        guard let recordNumber else { return }
        RecordBuffer.ofThread { buffer in
            guard buffer.recorder.serial == recordNumber.recorder else { return }
            let time = buffer.begin()
            defer { buffer.end() }
            let maximum = state.maximum == .max ? UInt64.max : UInt64(state.maximum)
            let word = UInt64(recordNumber.queue) << 1 | (state.isSuspended ? 1 : 0)
            buffer.append(.queue, 0, at: time, word, maximum, text: state.name ?? (isMain ? "main" : ""))
        }
    }
}
