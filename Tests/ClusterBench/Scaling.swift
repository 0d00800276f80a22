import ClusterSupport
import Glibc
import OpCluster
import TestSupport

/// Runs simulated bodies, which take the same time each.
private final class TimedRunner: ClusterWorker.Runner, @unchecked Sendable {
    // Safety: one thread uses it.

    private let simulation: Simulation
    private let seconds: Double
    private let busy: BusySlots

    init(_ simulation: Simulation, seconds: Double, _ busy: BusySlots) {
        (self.simulation, self.seconds, self.busy) = (simulation, seconds, busy)
    }

    func run(_ task: WorkerTask) {
        simulation.after(seconds) { [self] in
            busy.seconds += seconds
            task.finish(Payload(bytes: []))
        }
    }

    func stop(_ task: WorkerTask, _ request: StopRequest) {}
    func detach(_ task: WorkerTask) {}
    func runHasEnded(_ run: String) {}
}

private final class BusySlots: @unchecked Sendable {
    // Safety: one thread uses it.
    var seconds = 0.0
    var ended = 0, submitted = 0
}

/// Seconds of a processor that a message takes at the coordinator and at the server. A task that passed the stream took 30 µs and 31 µs, in 2.4
/// messages. A message that the server only passes on takes less, which is not counted here.
private let messageSeconds = 13e-6
/// Seconds that a message takes in a local network.
private let networkDelay = 0.0001...0.0003

/// Prints a row for each size of a cluster and each length of tasks.
func printScaling(longest: Int) {
    print("| workers | slots | seconds of a task | tasks | tasks a second | slots busy | coordinator busy | server busy |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for workers in [10, 100, 1000] {
        for seconds in [0.01, 0.1, 1, 10] {
            let slots = workers * 4
            let isLongest = workers == 1000 && seconds == 0.1
            let count = isLongest ? longest : max(min(Int(10 * Double(slots) / seconds), 20_000), slots * 6)
            let run = simulate(workers: workers, slotsOfEach: 4, seconds: seconds, count: count, inFlight: 2 * slots)
            print(
                "| \(workers) | \(slots) | \(seconds) | \(count) | \(Int(run.rate)) | \(percent(run.slotShare)) "
                    + "| \(percent(run.coordinatorShare)) | \(percent(run.serverShare)) |")
            fflush(nil)
        }
    }
}

private struct Run {
    /// Tasks a second.
    let rate: Double
    let slotShare: Double, coordinatorShare: Double, serverShare: Double
}

private func simulate(workers: Int, slotsOfEach: Int, seconds: Double, count: Int, inFlight: Int) -> Run {
    let simulation = Simulation(seed: 1)
    let server = SimulatedServer(simulation)
    let fabric = SimulatedFabric("coordinator", simulation, server, delay: networkDelay)
    let coordinator = Coordinator(fabric, key: RealCluster.key, version: "1")
    coordinator.start { error in if let error { print(error) } }
    simulation.run(until: 1)
    let state = BusySlots()
    var members: [ClusterWorker] = []
    for index in 0..<workers {
        // They do not all say hello at the same time.
        simulation.at(1 + simulation.seconds(in: 0...1)) {
            let fabric = SimulatedFabric("worker\(index)", simulation, server, delay: networkDelay)
            let description = WorkerDescription(name: "worker\(index)", host: "host", version: "1")
            let worker = ClusterWorker(
                fabric, key: RealCluster.key, description: description, slots: slotsOfEach, keptBytes: 0,
                runner: TimedRunner(simulation, seconds: seconds, state))
            worker.start { error in if let error { print(error) } }
            members.append(worker)
        }
    }
    simulation.run(until: 4)
    (fabric.cost, server.cost) = (messageSeconds, messageSeconds)
    let (messages, start) = (server.messageCount, simulation.now)
    @Sendable func submitNext() {
        if state.submitted == count { return }
        state.submitted += 1
        coordinator.submit(
            Coordinator.Task(Payload(bytes: [UInt8](repeating: 0, count: 100))),
            Coordinator.Handlers { _ in
                state.ended += 1
                submitNext()
            })
    }
    for _ in 0..<min(count, inFlight) { submitNext() }
    simulation.run(until: start + 100_000) { state.ended == count }
    let time = simulation.now - start
    let serverMessages = Double(server.messageCount - messages)
    let run = Run(
        rate: Double(count) / time, slotShare: state.seconds / time / Double(workers * slotsOfEach),
        coordinatorShare: fabric.workSeconds / time, serverShare: serverMessages * messageSeconds / time)
    coordinator.close()
    simulation.end()
    for worker in members { worker.close() }
    return run
}

private func percent(_ value: Double) -> String { "\(Int((value * 100).rounded())) %" }
