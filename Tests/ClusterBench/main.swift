// Measures a cluster at a server on this machine, or simulates a large one:
//
//   ClusterBench rate      empty tasks a second, with two workers in this process
//   ClusterBench latency   the time of one empty task after the other
//   ClusterBench blob      a value of 100 MB, there and back
//   ClusterBench costs     the processor time of each member for an empty task, with workers in processes of their own
//   ClusterBench scale     a table: how many workers and tasks one coordinator serves, simulated
//
// The environment variable CLUSTER_URL names a server; without it, one is started.
import ClusterSupport
import Glibc
import OpCluster
import TestSupport

let arguments = CommandLine.arguments.dropFirst()
let mode = arguments.first ?? "rate"
if mode == "scale" {
    printScaling(longest: arguments.dropFirst().first.flatMap { Int($0) } ?? 1_000_000)
    exit(0)
}
if mode == "worker", let url = arguments.dropFirst().first {
    let cluster = try await RealCluster(url)
    try await cluster.addWorker(url, slots: 1, runner: ClosureRunner { $0.finish(Payload(bytes: [])) })
    while getchar() != EOF {}
    exit(0)
}
let given = TestLength.environment("CLUSTER_URL")
let server = given == nil ? try NatsServer() : nil
let url = given ?? server?.url ?? ""
let cluster = try await RealCluster(url)
func rounded(_ value: Double) -> String { String(Double(Int(value * 100)) / 100) }

switch mode {
case "rate":
    for _ in 0..<2 { try await cluster.addWorker(url, slots: 1, runner: ClosureRunner { $0.finish(Payload(bytes: [])) }) }
    for count in [2000, 20000, 20000, 20000] {
        let seconds = await submitMany(count, inFlight: 128)
        print("\(count) tasks in \(rounded(seconds)) s: \(Int(Double(count) / seconds)) a second")
    }
case "latency":
    try await cluster.addWorker(url, runner: ClosureRunner { $0.finish(Payload(bytes: [])) })
    var times: [Double] = []
    for _ in 0..<3000 {
        let start = cluster.coordinator.now
        _ = await cluster.run([])
        times.append(cluster.coordinator.now - start)
    }
    times.sort()
    print("ms: p50 \(rounded(times[1500] * 1000)), p90 \(rounded(times[2700] * 1000)), p99 \(rounded(times[2970] * 1000))")
case "blob":
    try await cluster.addWorker(url)
    for round in 0..<4 {
        var bytes = [UInt8](repeating: UInt8(round), count: 100 << 20)
        bytes[1] = 7
        let blob = Blob(copying: bytes)
        var start = cluster.coordinator.now
        _ = await cluster.run([], contents: [blob])
        print("there, and back without sending it: \(rounded(104.86 / (cluster.coordinator.now - start))) MB/s")
        start = cluster.coordinator.now
    }
case "costs":
    guard let server else { break }
    let helpers = try (0..<2).map { _ in try NatsServer.spawnHelper([CommandLine.arguments[0], "worker", url]) }
    _ = await submitMany(5000, inFlight: 128)
    func times() -> [Double] { ([getpid(), server.process] + helpers).map(NatsServer.processorSeconds) }
    let (before, count) = (times(), 100_000)
    let seconds = await submitMany(count, inFlight: 128)
    let used = zip(times(), before).map { rounded(($0 - $1) * 1e6 / Double(count)) }
    print(
        "\(Int(Double(count) / seconds)) a second; microseconds of processors for each: coordinator \(used[0]), server \(used[1]), workers \(used[2...])"
    )
default: print("there is no mode '\(mode)'")
}
cluster.close()

/// Seconds that so many empty tasks take.
func submitMany(_ count: Int, inFlight: Int) async -> Double {
    let left = Locked((toSubmit: count, toEnd: count))
    let start = cluster.coordinator.now
    await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
        @Sendable func submitNext() {
            let isNeeded = left.withLock { left in
                left.toSubmit -= 1
                return left.toSubmit >= 0
            }
            if !isNeeded { return }
            cluster.coordinator.submit(
                Coordinator.Task(Payload(bytes: [])),
                Coordinator.Handlers { _ in
                    let isLast = left.withLock { left in
                        left.toEnd -= 1
                        return left.toEnd == 0
                    }
                    if isLast { done.resume() } else { submitNext() }
                })
        }
        for _ in 0..<inFlight { submitNext() }
    }
    return cluster.coordinator.now - start
}
