import Glibc
import OpPlatform
import Synchronization

/// Records the events of an engine's operations, and of activities beside them, at a fraction of a microsecond for each operation.
///
/// Threads write records into buffers of their own without locks. The recorder's thread reads the buffers every few milliseconds and passes
/// the records to a receiver in order of time. A thread whose buffer is full waits for the recorder, so the memory is bounded. Only one
/// recorder at a time may record in a process. An engine that is not recorded pays nothing.
///
/// Compared with `OperationObserver`, the receiver does not see the operations and cannot act on them.
public final class Recorder: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because `state` and `buffers` have locks, and the other properties are constant, atomic, or used only
    // by the recorder's thread until that has ended.

    /// The time that the recorder sleeps before it reads the buffers again.
    private static let interval = Duration.milliseconds(10)
    private static let active = Guarded<Recorder?>(nil)
    private static let count = Atomic<Int>(0)

    /// Distinguishes this recorder from all others of the process, without retaining it.
    let serial = Recorder.count.wrappingAdd(1, ordering: .relaxed).newValue
    let receiver: any OperationRecordReceiver
    private let engine: Engine
    private let buffers = Guarded<[RecordBuffer]>([])
    private let threadCount = Atomic<Int>(0)
    let queueCount = Atomic<Int>(0)
    private let activityCount = Atomic<Int>(0)
    private let parker = Parker()
    private let isStopping = Atomic<Bool>(false)
    private let thread = JoinableThread()
    /// Used only by the recorder's thread, which needs no exclusivity checks.
    @safe @exclusivity(unchecked) private var operationNumbers = OperationNumbers()

    /// Records operations that are added to queues of `engine` from now on.
    ///
    /// Returns nil if another recorder is recording in this process, or if the system cannot start a thread.
    public init?(_ engine: Engine, receiver: any OperationRecordReceiver) {
        self.engine = engine
        self.receiver = receiver
        let isFirst = Recorder.active.withLock { active in
            if active != nil { return false }
            active = self
            return true
        }
        guard isFirst else { return nil }
        guard tryStartThread(as: thread, { [self] in run() }) else {
            Recorder.active.withLock { $0 = nil }
            return nil
        }
        engine.eventObservers.setRecorded(true)
    }

    /// Stops recording, passes the remaining records to the receiver, and waits until it has received them. Further calls do nothing.
    public func stop() {
        if isStopping.exchange(true, ordering: .acquiringAndReleasing) { return }
        engine.eventObservers.setRecorded(false)
        Recorder.active.withLock { $0 = nil }
        parker.unpark()
        thread.join(until: .now + .seconds(3600))
    }

    // MARK: Activities

    /// Records that something outside the engine's threads has begun, such as a program.
    ///
    /// - Parameters:
    ///   - name: the name of the activity in the record.
    ///   - operation: the operation that has begun it, if one has.
    /// - Returns: the number to pass to `activityEnded`; nil if no recorder is recording.
    public static func activityBegan(_ name: String, by operation: Operation?) -> Int? {
        RecordBuffer.ofThread { buffer in
            let number = buffer.recorder.activityCount.wrappingAdd(1, ordering: .relaxed).oldValue
            buffer.write(.activityBegan(number, name: name), operation?.knownAddress ?? 0)
            return number
        }
    }

    /// Records that an activity has ended.
    public static func activityEnded(_ number: Int, _ detail: String) {
        RecordBuffer.ofThread { $0.write(.activityEnded(number, detail: detail)) }
    }

    // MARK: Buffers

    /// Makes the buffer of the calling thread. Nil if no recorder is recording.
    static func openBuffer(for context: ThreadContext) -> RecordBuffer? {
        // The lock keeps `stop` from ending the recording before it knows this buffer, which would then never be closed.
        let made = active.withLock { recorder -> RecordBuffer? in
            guard let recorder else { return nil }
            let number = recorder.threadCount.wrappingAdd(1, ordering: .relaxed).oldValue
            let buffer = RecordBuffer(recorder: recorder, number: number)
            recorder.buffers.withLock { $0.append(buffer) }
            return buffer
        }
        guard let buffer = made else { return nil }
        context.keep(buffer)
        // Safety: a thread's worker lives as long as the thread.
        let worker = unsafe context.worker?.number
        let isMain = buffer.recorder.engine.isMainThread
        buffer.write(.thread(worker: worker, isMain: isMain))
        return buffer
    }

    func wake() { parker.unpark() }

    // MARK: The recorder's thread

    private func run() {
        while Recorder.active.withLock({ $0 === self }) {
            pass()
            _ = parker.park(until: .now + Recorder.interval)
        }
        let left = buffers.withLock { $0 }
        for buffer in left { buffer.isOpen.store(false, ordering: .sequentiallyConsistent) }
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        // A thread that is in the middle of a record finishes it, unless it does not run at all.
        for _ in 0..<1000 where left.contains(where: { $0.completeTime(now: 1, last: 0) == 0 }) { sched_yield() }
        deliver(left, until: .max)
        buffers.withLock { $0 = [] }
    }

    /// Passes on the records up to the moment until which all threads have published theirs.
    private func pass() {
        let all = buffers.withLock { $0 }
        let now = monotonicNow()
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        var until = now
        for buffer in all {
            let published = buffer.published
            let last = published.isEmpty ? buffer.lastTime : buffer.time(at: published.upperBound - 1)
            until = min(until, buffer.completeTime(now: now, last: last))
        }
        deliver(all, until: until)
        buffers.withLock { $0.removeAll { $0.isAbandoned.load(ordering: .acquiring) && $0.published.isEmpty } }
    }

    /// A buffer whose records are being merged.
    private struct Source {
        let buffer: RecordBuffer
        var next: Int
        let end: Int
        var time: UInt64
    }

    /// Merges the records of all buffers up to a time.
    private func deliver(_ all: [RecordBuffer], until: UInt64) {
        var sources: [Source] = []
        for buffer in all {
            let published = buffer.published
            if published.isEmpty || buffer.time(at: published.lowerBound) > until { continue }
            sources.append(
                Source(
                    buffer: buffer, next: published.lowerBound, end: published.upperBound, time: buffer.time(at: published.lowerBound)))
        }
        while !sources.isEmpty {
            var first = 0
            var limit = until
            for index in sources.indices.dropFirst() {
                if sources[index].time < sources[first].time {
                    limit = min(limit, sources[first].time)
                    first = index
                } else {
                    limit = min(limit, sources[index].time)
                }
            }
            // A run of records of one thread that are earlier than those of all others.
            drain(&sources[first], until: limit)
            if sources[first].next == sources[first].end || sources[first].time > until { sources.remove(at: first) }
        }
        receiver.finishBatch()
    }

    private func drain(_ source: inout Source, until limit: UInt64) {
        let buffer = source.buffer
        var index = source.next
        var last = buffer.lastTime
        while index < source.end {
            source.time = buffer.time(at: index)
            if source.time > limit { break }
            last = source.time
            receive(buffer.take(at: index), of: buffer)
            index += 1
        }
        buffer.lastTime = last
        source.next = index
        buffer.advance(to: index)
    }

    /// Passes on a record, with the numbers of operations in place of their addresses.
    private func receive(_ entry: RecordBuffer.Entry, of buffer: RecordBuffer) {
        let operation = entry.address == 0 ? -1 : number(of: entry.address, in: buffer)
        let event: OperationRecord.Event =
            switch entry.event {
            case .added(let queue, let creator?, let priority, let isReady):
                .added(queue: queue, creator: number(of: UInt64(creator), in: buffer), priority: priority, isReady: isReady)
            case .dependency(let address): .dependency(number(of: UInt64(address), in: buffer))
            default: entry.event
            }
        receiver.receive(OperationRecord(time: entry.time, thread: buffer.number, operation: operation, event: event))
    }

    private func number(of address: UInt64, in buffer: RecordBuffer) -> Int {
        operationNumbers.number(of: address, &buffer.lastPage)
    }
}

extension RecordBuffer {
    /// Calls `body` with the buffer of the calling thread. Returns nil if no recorder is recording.
    ///
    /// Retains nothing, because retaining and releasing would take most of the time of a record. `body` must not end the thread.
    @inline(__always)
    static func ofThread<Result>(_ body: (RecordBuffer) -> Result) -> Result? {
        // Safety: the context lives as long as the thread. Only `openBuffer` replaces its buffer, before `body`.
        ThreadContext.withCurrent { context in
            if let buffer = unsafe context.recordBuffer {
                return unsafe buffer._withUnsafeGuaranteedRef {
                    $0.isOpen.load(ordering: .relaxed) ? body($0) : ofOpenedThread(context, body)
                }
            }
            return ofOpenedThread(context, body)
        }
    }

    @inline(never)
    private static func ofOpenedThread<Result>(_ context: ThreadContext, _ body: (RecordBuffer) -> Result) -> Result? {
        Recorder.openBuffer(for: context).map(body)
    }
}
