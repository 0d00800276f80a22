import CMeasuring
import Glibc

/// A workload: runs the given number of operations and returns the value in its unit, by default nanoseconds per operation.
public typealias Workload = (Int) -> Double

/// The main function of a subject. `subject WORKLOAD COUNT` prints the value and the processor time per operation in nanoseconds.
/// Runs a tenth of the work first, unmeasured, to start the threads. The status is 3 when the subject does not have the workload.
public func measure(_ workloads: [String: Workload]) {
    let (workload, count) = choose(from: workloads)
    _ = workload(max(1, count / 10))
    let start = processorTime()
    let value = workload(count)
    print(value, (processorTime() - start) / Double(count))
}

/// The main function of a subject with asynchronous workloads.
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

/// The processor time that all threads of the process have used, in nanoseconds.
private func processorTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// The duration of `body` in nanoseconds.
public func nanoseconds(_ body: () throws -> Void) rethrows -> Double {
    let start = ContinuousClock.now
    try body()
    return nanoseconds(since: start)
}

/// The time since `start` in nanoseconds.
public func nanoseconds(since start: ContinuousClock.Instant) -> Double {
    (ContinuousClock.now - start) / .nanoseconds(1)
}

/// The median duration of `count` calls of `body`, in microseconds.
public func medianMicroseconds(_ count: Int, _ body: () -> Void) -> Double {
    var times = (0..<count).map { _ in nanoseconds(body) }
    times.sort()
    return times[count / 2] / 1000
}

/// The number of allocated bytes, including the allocator's overhead for each block.
public func allocatedBytes() -> Double { cmeasuring_allocated_bytes() }

/// Keeps a processor busy with a fixed amount of work, about 20 ms.
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

/// Computes for about 0.12 µs.
public func computeBriefly() -> UInt64 { cmeasuring_compute_briefly() }

/// Runs `body` on `count` threads, passing each its number from 0 on, and waits for them.
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

/// The number of layers of the graph of `W4`, and its width.
public func layers(of count: Int) -> (count: Int, width: Int) {
    let width = min(1000, max(8, count / 10))
    return (max(2, count / width), width)
}

/// The three nodes of the previous layer that a node of `W4` depends on.
public func dependencies(of index: Int, width: Int) -> (Int, Int, Int) {
    (index, (index + 1) % width, (index + 7) % width)
}
