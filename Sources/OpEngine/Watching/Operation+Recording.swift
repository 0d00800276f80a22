import OpPlatform
import Synchronization

extension Operation {
    private var recordAddress: UInt64 {
        // Safety: the address is only a number. It does not change while the operation lives.
        unsafe UInt64(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque()))
    }

    /// The address if the recorder knows the operation; 0 otherwise.
    var knownAddress: UInt64 { loadState().has(State.recorded) ? recordAddress : 0 }

    /// Writes the records of a transition. The caller may hold the queue's lock, but not the operation's.
    func write(_ entry: JournalEntry, at time: UInt64, to buffer: RecordBuffer) {
        let (address, milestones) = (recordAddress, entry.milestones)
        if milestones.contains(.added) {
            // Safety: the queue's lock is held, and the operation is in the queue.
            let queue = unsafe core._withUnsafeGuaranteedRef { $0.recordNumber?.queue ?? 0 }
            let creator = ThreadContext.withCurrent { Int($0.operation?.knownAddress ?? 0) }
            let event = OperationRecord.Event.added(
                queue: queue, creator: creator == 0 ? nil : creator, priority: entry.new.priority, isReady: milestones.contains(.ready))
            buffer.append(event, address, at: time)
            if let name = lock.withLock({ extras?.name }) { buffer.append(.name(name), address, at: time) }
        } else if milestones.contains(.ready) {
            buffer.append(.ready, address, at: time)
        }
        if milestones.contains(.cancelled) { buffer.append(.cancelled, address, at: time) }
        if milestones.contains(.started) { buffer.append(.started, address, at: time) }
        if !milestones.isDisjoint(with: [.started, .passedOver]) { writeDependencies(at: time, to: buffer) }
        if milestones.contains(.attemptFailed) { buffer.append(.attemptFailed, address, at: time) }
        if milestones.contains(.finished) {
            // The operation may have finished without a start.
            if !entry.new.has(State.started) { writeDependencies(at: time, to: buffer) }
            buffer.append(.finished(entry.new.outcome), address, at: time)
        }
    }

    private func writeDependencies(at time: UInt64, to buffer: RecordBuffer) {
        lock.withLock {
            var edges = dependencyList.makeIterator()
            while let edge = unsafe edges.next() {
                // Safety: an edge on the list retains its dependency.
                unsafe edge.pointee.dependency?._withUnsafeGuaranteedRef { dependency in
                    guard dependency.loadState().has(State.linked) else { return }
                    buffer.append(.dependency(Int(dependency.recordAddress)), recordAddress, at: time)
                }
            }
        }
    }

    /// Records the queue that the operation is about to join, and the place. Returns false if no recorder is recording. The caller holds the
    /// queue's lock.
    func beginRecording(in core: OperationQueue.Core, _ queue: inout OperationQueue.State) -> Bool {
        RecordBuffer.ofThread { buffer in
            core.beginRecording(into: buffer, &queue)
            if let (place, isFinal) = placeToRecord { buffer.write(.place(place, isFinal: isFinal), recordAddress) }
            return true
        } ?? false
    }

    /// Records that the operation has left its thread without having finished.
    @inline(never)
    func recordReturn() {
        RecordBuffer.ofThread { $0.write(.returned, recordAddress) }
    }

    /// Records a new name of an operation that was added. The caller holds no lock.
    @inline(never)
    func recordName(_ name: String?) { RecordBuffer.ofThread { $0.write(.name(name ?? ""), recordAddress) } }

    /// Records an error. The caller holds no lock.
    @inline(never)
    func record(_ error: any Error) {
        RecordBuffer.ofThread { buffer in
            // Foreign code makes the text, so the record does not begin before.
            let text = buffer.recorder.receiver.describe(error)
            buffer.write(.error(text), recordAddress)
        }
    }

    /// Records the place where a script has made or added this operation. Has no effect unless a recorder is recording.
    ///
    /// - Parameter isFinal: whether this replaces a place that was recorded before the operation was added.
    package func recordPlace(_ place: String, isFinal: Bool) {
        RecordBuffer.ofThread { $0.write(.place(place, isFinal: isFinal), recordAddress) }
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
            buffer.append(.ranElsewhere(worker: worker, slots: max(0, slots), began: begin, ended: end), recordAddress, at: time)
        }
    }

    /// Records that the operation, which is executing, need not do its work. Has no effect unless a recorder is recording.
    package func recordSkip() {
        if loadState().has(State.recorded) { RecordBuffer.ofThread { $0.write(.skipped, recordAddress) } }
    }
}

extension Engine {
    /// Whether a recorder is recording this engine. Costs one load.
    package var isRecorded: Bool { eventObservers.isRecorded }
}

extension Worker {
    /// Records that the worker is blocked, or no longer is. The caller holds the pool's lock, so that the records are in order.
    @inline(never)
    func recordBlocking(began: Bool) {
        guard engine.isRecorded else { return }
        RecordBuffer.ofThread { $0.write(began ? .workerBlocked(number) : .workerReturned(number)) }
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
        let number = buffer.recorder.queueCount.wrappingAdd(1, ordering: .relaxed).oldValue
        recordNumber = RecordNumber(queue: number, recorder: buffer.recorder.serial)
        if let members = queue.memberQueue { buffer.write(.group(queue: number), members.groupAddress) }
        recordSettings(queue)
    }

    /// Records the queue's name and settings. The caller holds the queue's lock.
    @inline(never)
    func recordSettings(_ state: OperationQueue.State) {
        guard let recordNumber else { return }
        RecordBuffer.ofThread { buffer in
            guard buffer.recorder.serial == recordNumber.recorder else { return }
            let name = state.name ?? (isMain ? "main" : "")
            buffer.write(
                .queue(
                    recordNumber.queue, name: name.isEmpty ? nil : name, maximum: state.maximum == .max ? nil : state.maximum,
                    isSuspended: state.isSuspended))
        }
    }
}
