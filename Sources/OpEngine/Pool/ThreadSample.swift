import Glibc
import OpPlatform
import Synchronization

/// The monitor's knowledge about a worker's thread, updated with each sample.
struct ThreadSample {
    enum Kind {
        /// The thread has used processor time since the last sample.
        case runs
        /// Like `runs`, and since it last slept the thread has used more processor time than it takes to begin an operation.
        case computes
        /// The thread is runnable but has not run since the last sample.
        case waitsForProcessor
        /// The thread sleeps in the kernel and has not run since the last sample.
        case sleeps
        /// The state could not be determined: the thread has not started, it ran while the sample was taken, it waits for a lock of the
        /// engine and will continue soon, or `/proc` is missing.
        case unknown
    }

    /// More processor time, in nanoseconds, than it takes to start a thread and create a Lua state.
    static let maxStartupTime: Int64 = 500_000

    /// The time after the start of a program, or a wait for one, during which a sleeping thread is not blocked. The program may still run and keep the
    /// place, and a thread may sleep for a lock as long as the lock's holder gets no processor.
    static let timeAfterProgram = Duration.seconds(1)

    private(set) var kind = Kind.unknown
    /// The time of the last sample in which the thread had run.
    private var lastRun = ContinuousClock.now
    /// The time of the last sample before which a program ran in the thread's place.
    private var lastInPlace: ContinuousClock.Instant?
    private var processorTime: Int64 = 0
    private var processorTimeAsleep: Int64 = 0

    /// Updates the sample.
    ///
    /// - Parameters:
    ///   - processorTime: the thread's total processor time in nanoseconds. Nil if unknown.
    ///   - state: returns the state letter from `/proc`: `R`, `S`, `D` and so on. Called only if the thread has not run.
    mutating func update(processorTime time: Int64?, at now: ContinuousClock.Instant, state: () -> UInt8?) {
        guard let time else {
            kind = .unknown
            return
        }
        if time != processorTime {
            processorTime = time
            lastRun = now
            kind = time - processorTimeAsleep > ThreadSample.maxStartupTime ? .computes : .runs
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

    /// Updates the sample of a thread that waits for a program, which computes in its place.
    mutating func waitsInPlace(at now: ContinuousClock.Instant) {
        lastRun = now
        hasUsedPlace(at: now)
        kind = .computes
    }

    /// Notes that a program ran in the thread's place since the last sample.
    mutating func hasUsedPlace(at now: ContinuousClock.Instant) { lastInPlace = now }

    /// The indices of the samples whose threads have been blocked for at least `duration`.
    ///
    /// If a thread has been waiting for a processor since before another thread fell asleep, it may hold the lock that the other thread
    /// waits for. The sleeping thread does not count as blocked until the first one has run.
    static func blocked(_ samples: [ThreadSample], for duration: Duration, at now: ContinuousClock.Instant) -> [Int] {
        let lastTurn = samples.filter { $0.kind == .waitsForProcessor }.map(\.lastRun).min() ?? now
        return samples.indices.filter { index in
            let sample = samples[index]
            if let last = sample.lastInPlace, now - last < timeAfterProgram { return false }
            return sample.kind == .sleeps && now - sample.lastRun >= duration && sample.lastRun < lastTurn
        }
    }
}

extension Worker {
    func takeSample(at now: ContinuousClock.Instant) {
        if hasUsedPlace.exchange(false, ordering: .relaxed) { sample.hasUsedPlace(at: now) }
        if waitsInPlace.load(ordering: .acquiring) { return sample.waitsInPlace(at: now) }
        let number = threadNumber.load(ordering: .acquiring), process = process.load(ordering: .acquiring)
        let time = number == 0 ? nil : processorTime(ofThread: number, and: process)
        sample.update(processorTime: time, at: now) {
            let state = sleepsOrRuns(number, process)
            // Read the time again after the state. If the thread has run since `time` was read, the state belongs to a sleep that has just
            // begun.
            return waitsForLock.load(ordering: .acquiring) || processorTime(ofThread: number, and: process) != time ? nil : state
        }
    }
}

/// The state letter of a thread. If the thread sleeps, that of the first thread of the process that works for it.
private func sleepsOrRuns(_ number: pid_t, _ process: pid_t) -> UInt8? {
    let state = threadState("/proc/self/task/\(number)/stat")
    if process == 0 || state != UInt8(ascii: "S") && state != UInt8(ascii: "D") { return state }
    return threadState("/proc/\(process)/stat")
}

/// The total processor time of a thread of this process, and of the process that works for it, in nanoseconds.
private func processorTime(ofThread number: pid_t, and process: pid_t) -> Int64? {
    // The kernel's identifier of the thread's CPU clock. `pthread_getcpuclockid` computes the same value but needs a `pthread_t`.
    guard let time = processorTime(of: ~number << 3 | 6) else { return nil }
    // A process that has ended needs no more time.
    return process == 0 ? time : time + (processorTime(of: ~process << 3 | 2) ?? 0)
}

private func processorTime(of clock: clockid_t) -> Int64? {
    var time = timespec()
    // Safety: `time` outlives the call.
    return unsafe clock_gettime(clock, &time) == 0 ? Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec) : nil
}

/// The thread's state letter. It follows the thread's name, which is in parentheses and may contain any character.
private func threadState(_ file: String) -> UInt8? {
    guard let text = readFile(file), let name = text.lastIndex(of: ")") else { return nil }
    return text[text.index(after: name)...].utf8.dropFirst().first
}
