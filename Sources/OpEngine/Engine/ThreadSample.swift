import Glibc
import Synchronization

/// What `BlockingMonitor` knows of a worker's thread, from one sample to the next.
struct ThreadSample {
    enum Kind {
        /// The thread has used processor time since the last sample.
        case runs
        /// The same, and since it last slept it has used more than it takes to begin a body.
        case computes
        /// The thread could run, but has had no turn since the last sample.
        case waitsForProcessor
        /// The thread sleeps in the kernel, and has not run since the last sample.
        case sleeps
        /// The thread has not begun, has run while the sample was taken, or waits for a lock of the engine, whose holder goes on soon; or
        /// there is no `/proc`.
        case unknown
    }

    /// Nanoseconds of processor time: more than it takes to make a thread and a Lua state.
    static let mostToBegin: Int64 = 500_000

    private(set) var kind = Kind.unknown
    /// When the last sample was taken in which the thread had run.
    private var lastRun = ContinuousClock.now
    private var processorTime: Int64 = 0
    private var processorTimeAsleep: Int64 = 0

    /// - Parameters:
    ///   - processorTime: nanoseconds that the thread has run for; nil if that is unknown.
    ///   - state: gives the thread's state as `/proc` has it: `R`, `S`, `D` and others. Called only if the thread has not run.
    mutating func update(processorTime time: Int64?, at now: ContinuousClock.Instant, state: () -> UInt8?) {
        guard let time else {
            kind = .unknown
            return
        }
        if time != processorTime {
            processorTime = time
            lastRun = now
            kind = time - processorTimeAsleep > ThreadSample.mostToBegin ? .computes : .runs
            return
        }
        switch state() {
        case UInt8(ascii: "R"): kind = .waitsForProcessor
        case UInt8(ascii: "S"), UInt8(ascii: "D"):
            kind = .sleeps
            processorTimeAsleep = time
        default: kind = .unknown
        }
    }

    /// The indices of those whose threads have been blocked for `duration`.
    ///
    /// A thread that has had no turn since another fell asleep may hold the lock that the other waits for. Until it has run, the other does not
    /// count as blocked.
    static func blocked(_ samples: [ThreadSample], for duration: Duration, at now: ContinuousClock.Instant) -> [Int] {
        let lastTurn = samples.filter { $0.kind == .waitsForProcessor }.map(\.lastRun).min() ?? now
        return samples.indices.filter { index in
            let sample = samples[index]
            return sample.kind == .sleeps && now - sample.lastRun >= duration && sample.lastRun < lastTurn
        }
    }
}

extension Worker {
    func takeSample(at now: ContinuousClock.Instant) {
        let number = threadNumber.load(ordering: .acquiring)
        let time = number == 0 ? nil : processorTime(ofThread: number)
        sample.update(processorTime: time, at: now) {
            let state = threadState(number)
            // In this order: if the thread has run since `time`, the state belongs to a sleep that has just begun.
            return waitsForLock.load(ordering: .acquiring) || processorTime(ofThread: number) != time ? nil : state
        }
    }
}

/// Nanoseconds that a thread of this process has run for.
private func processorTime(ofThread number: pid_t) -> Int64? {
    // The kernel's name for this clock, as `pthread_getcpuclockid` makes it, which needs the thread itself.
    let clock = ~number << 3 | 6
    var time = timespec()
    // Safety: `time` outlives the call.
    return unsafe clock_gettime(clock, &time) == 0 ? Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec) : nil
}

/// The state follows the thread's name, which is in parentheses and may contain any character.
private func threadState(_ number: pid_t) -> UInt8? {
    guard let text = readFile("/proc/self/task/\(number)/stat"), let name = text.lastIndex(of: ")") else { return nil }
    return text[text.index(after: name)...].utf8.dropFirst().first
}
