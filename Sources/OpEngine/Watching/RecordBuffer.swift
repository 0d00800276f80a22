import Glibc
import OpPlatform
import Synchronization

/// The records of one thread that the recorder has not read yet: a ring that one thread fills and the recorder's thread empties, without
/// locks.
@safe final class RecordBuffer: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the owning thread writes records and only the recorder's thread reads them, each on its
    // side of `head` and `tail`.

    /// A record as it is stored. In place of the numbers of operations it has their addresses.
    struct Entry {
        let time: UInt64
        /// 0 if the record is about no operation.
        let address: UInt64
        let event: OperationRecord.Event
    }

    private static let capacity = 8192

    let recorder: Recorder
    let number: Int
    private let entries = UnsafeMutablePointer<Entry>.allocate(capacity: capacity)
    /// The number of records that were written, and of those that were read. Each is in a cache line of its own.
    private let tail = Atomic<Int>(0)
    private let gap = InlineArray<7, Int>(repeating: 0)
    private let head = Atomic<Int>(0)
    // Only the recorder's thread uses these two, so they need no exclusivity checks.
    /// The page of memory in which the recorder has looked up an operation last. See `OperationNumbers`.
    @safe @exclusivity(unchecked) var lastPage = OperationNumbers.Page.none
    /// The time of the last record that the recorder has read.
    @safe @exclusivity(unchecked) var lastTime: UInt64 = 0
    private let otherGap = InlineArray<4, Int>(repeating: 0)
    /// The value of `head` at the writer's last look.
    private var knownHead = 0
    private var written = 0
    /// Whether the thread has read the clock for a record that it has not published.
    private let isWriting = Atomic<Bool>(false)
    /// Whether the recorder still reads. Cleared once.
    let isOpen = Atomic<Bool>(true)
    /// Whether the thread has ended.
    let isAbandoned = Atomic<Bool>(false)

    init(recorder: Recorder, number: Int) {
        self.recorder = recorder
        self.number = number
    }

    deinit { unsafe entries.deallocate() }

    // MARK: On the owning thread

    /// Begins a group of records that have one time. Returns the time. Must be balanced by `end`.
    @inline(__always)
    func begin() -> UInt64 {
        // Pairs with the fences of the recorder, which reads the clock and then `isWriting`. An exchange takes less time than a store and a
        // fence.
        _ = isWriting.exchange(true, ordering: .sequentiallyConsistent)
        return monotonicNow()
    }

    @inline(__always)
    func end() { isWriting.store(false, ordering: .releasing) }

    @inline(__always)
    func append(_ event: OperationRecord.Event, _ address: UInt64, at time: UInt64) {
        guard let slot = unsafe freeSlot() else { return }
        // Safety: the slot is free, and only this thread writes.
        unsafe slot.initialize(to: Entry(time: time, address: address, event: event))
        written += 1
        tail.store(written, ordering: .releasing)
        if written & (RecordBuffer.capacity / 4 - 1) == 0 { recorder.wake() }
    }

    /// Writes a record with the present time.
    func write(_ event: OperationRecord.Event, _ address: UInt64 = 0) {
        let time = begin()
        append(event, address, at: time)
        end()
    }

    /// The place of the next record; nil if the recorder reads no more.
    @inline(__always)
    private func freeSlot() -> UnsafeMutablePointer<Entry>? {
        if written - knownHead == RecordBuffer.capacity && !makeRoom() { return nil }
        return unsafe entries + written & (RecordBuffer.capacity - 1)
    }

    /// Waits until the recorder has read something. Returns false if it reads no more.
    @inline(never)
    private func makeRoom() -> Bool {
        knownHead = head.load(ordering: .acquiring)
        if written - knownHead < RecordBuffer.capacity { return true }
        // The recorder takes no lock that this thread may hold. So this wait is like one for a lock of the engine.
        LockWaits.during {
            while written - knownHead == RecordBuffer.capacity && isOpen.load(ordering: .acquiring) {
                recorder.wake()
                usleep(50)
                knownHead = head.load(ordering: .acquiring)
            }
        }
        return written - knownHead < RecordBuffer.capacity
    }

    // MARK: On the recorder's thread

    /// The time up to which this thread has published all its records, given that a fence has followed the reading of `now`.
    func completeTime(now: UInt64, last: UInt64) -> UInt64 { isWriting.load(ordering: .acquiring) ? last : now }

    /// The records that were published and not read.
    var published: Range<Int> { head.load(ordering: .relaxed)..<tail.load(ordering: .acquiring) }

    /// The time of a published record.
    @inline(__always)
    func time(at index: Int) -> UInt64 {
        // Safety: the caller reads a published record.
        unsafe entries[index & (RecordBuffer.capacity - 1)].time
    }

    /// Takes a published record out of the buffer. `advance` must follow.
    @inline(__always)
    func take(at index: Int) -> Entry {
        // Safety: the thread has put an entry there, which is read once.
        unsafe (entries + index & (RecordBuffer.capacity - 1)).move()
    }

    @inline(__always)
    func advance(to index: Int) { head.store(index, ordering: .releasing) }
}

/// The time in nanoseconds of the monotonic clock.
@inline(__always)
func monotonicNow() -> UInt64 {
    var now = timespec()
    // Safety: `now` is a local variable that outlives the call.
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}
