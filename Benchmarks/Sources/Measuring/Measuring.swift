import CMeasuring
import Glibc

/// A workload: runs so many operations and returns the value in its unit; nanoseconds for each operation unless the name says otherwise.
public typealias Workload = (Int) -> Double

/// The program of a subject: `subject WORKLOAD COUNT` prints the value, and the processor time of an operation in nanoseconds. A tenth of the work goes before, unmeasured, so that threads
/// are there. The status is 3 for a workload that the subject does not have.
public func measure(_ workloads: [String: Workload]) {
    let (workload, count) = choose(from: workloads)
    _ = workload(max(1, count / 10))
    let start = processorTime()
    let value = workload(count)
    print(value, (processorTime() - start) / Double(count))
}

/// The same for workloads that wait on no thread.
public func measure(_ workloads: [String: @Sendable (Int) async -> Double]) async {
    let (workload, count) = choose(from: workloads)
    _ = await workload(max(1, count / 10))
    let start = processorTime()
    let value = await workload(count)
    print(value, (processorTime() - start) / Double(count))
}

private func choose<Value>(from workloads: [String: Value]) -> (Value, Int) {
    let arguments = CommandLine.arguments
    guard arguments.count == 3, let count = Int(arguments[2]), count > 0 else {
        print("usage: \(arguments[0]) WORKLOAD COUNT; the workloads are \(workloads.keys.sorted().joined(separator: " "))")
        exit(2)
    }
    guard let workload = workloads[arguments[1]] else { exit(3) }
    return (workload, count)
}

/// What all threads of the process have used, in nanoseconds.
private func processorTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// How long `body` takes, in nanoseconds.
public func nanoseconds(_ body: () -> Void) -> Double {
    let start = ContinuousClock.now
    body()
    return nanoseconds(since: start)
}

/// How long ago `start` was, in nanoseconds.
public func nanoseconds(since start: ContinuousClock.Instant) -> Double {
    (ContinuousClock.now - start) / .nanoseconds(1)
}

/// The median of `count` times, in microseconds.
public func medianMicroseconds(_ count: Int, _ body: () -> Void) -> Double {
    var times = (0..<count).map { _ in nanoseconds(body) }
    times.sort()
    return times[count / 2] / 1000
}

/// How many bytes are allocated now, what the allocator adds to each block included.
public func allocatedBytes() -> Double { cmeasuring_allocated_bytes() }

/// Keeps a processor busy for a fixed amount of work, about 20 ms.
@inline(never)
public func compute() -> UInt64 {
    var state: UInt64 = 88_172_645_463_325_252
    for _ in 0..<8_000_000 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
    }
    return state
}

/// Work of about 0.12 µs.
public func computeBriefly() -> UInt64 { cmeasuring_compute_briefly() }

/// Runs `body` on so many threads, with the number of each from 0 on, and waits for them.
public func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    final class Start {
        let run: () -> Void
        init(_ run: @escaping () -> Void) { self.run = run }
    }
    let threads = (0..<count).map { number in
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(Start { body(number) }).toOpaque()
        pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, argument)
        return thread
    }
    for thread in threads { pthread_join(thread, nil) }
}

/// How many layers and how wide the graph of `W4` is.
public func layers(of count: Int) -> (count: Int, width: Int) {
    let width = min(1000, max(8, count / 10))
    return (max(2, count / width), width)
}

/// The three nodes of the layer before that a node of `W4` depends on.
public func dependencies(of index: Int, width: Int) -> (Int, Int, Int) {
    (index, (index + 1) % width, (index + 7) % width)
}
