import ClusterSupport
import OpPlatform
import TestSupport

@testable import OpCluster

/// The work of a simulated body. The bytes of a task encode it.
struct Body {
    var seconds: Double
    var outputCount = 0
    /// The number of bytes of its arguments and of its results that are sent as blobs; 0 for none.
    var argumentCount = 0, resultCount = 0
    /// Whether it ends when it is cancelled, and whether it asks the coordinator something.
    var listens = true, asks = false

    var bytes: [UInt8] {
        Array("\(Int((seconds * 1e6).rounded())) \(outputCount) \(resultCount) \(listens ? 1 : 0) \(asks ? 1 : 0)".utf8)
    }

    init(seconds: Double) { self.seconds = seconds }

    init(_ bytes: [UInt8]) {
        let numbers = String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { Int($0) }
        seconds = Double(numbers[0]) / 1e6
        (outputCount, resultCount, listens, asks) = (numbers[1], numbers[2], numbers[3] == 1, numbers[4] == 1)
    }
}

/// Runs simulated bodies.
final class SimulatedRunner: ClusterWorker.Runner, @unchecked Sendable {
    // Safety: one thread uses it.

    struct Running {
        let task: WorkerTask
        var stops: [StopRequest] = []
    }

    let name: String
    let simulation: Simulation
    private unowned let cluster: SimulatedCluster
    private(set) var running: [ObjectIdentifier: Running] = [:]
    private(set) var greatestCount = 0
    var isDead = false

    init(_ name: String, _ cluster: SimulatedCluster) {
        (self.name, self.cluster, simulation) = (name, cluster, cluster.simulation)
    }

    func run(_ task: WorkerTask) {
        if isDead { return }
        let body = Body(task.bytes)
        running[ObjectIdentifier(task)] = Running(task: task)
        greatestCount = max(greatestCount, running.count)
        cluster.noteBegin(task, by: name)
        if body.asks { ask(task) }
        for index in 0..<body.outputCount {
            simulation.after(body.seconds * Double(index) / Double(body.outputCount)) { [self] in
                if !isDead, running[ObjectIdentifier(task)] != nil { task.write(Array("\(name) \(index)\n".utf8), to: 1) }
            }
        }
        simulation.after(body.seconds) { [self] in
            let contents = body.resultCount == 0 ? [] : [Blob(copying: SimulatedCluster.bytes(task.number, body.resultCount))]
            end(task, Payload(bytes: Array("done \(task.number)".utf8), contents: contents))
        }
    }

    private func ask(_ task: WorkerTask) {
        let question = Array("\(name) asks for \(task.number)".utf8)
        task.ask(question) { [self] answer in
            guard let answer, answer != question.reversed() else { return }
            cluster.fail("\(name) got the answer '\(String(decoding: answer.reversed(), as: UTF8.self))' for task \(task.number)")
        }
    }

    func stop(_ task: WorkerTask, _ request: StopRequest) {
        if isDead { return }
        guard running[ObjectIdentifier(task)] != nil else { return cluster.fail("\(name): a body is stopped that does not run") }
        running[ObjectIdentifier(task)]?.stops.append(request)
        cluster.noteStop(task, request)
        if request == .cancel && !Body(task.bytes).listens { return }
        simulation.after(0.001) { [self] in end(task, Payload(bytes: Array("interrupted \(task.number)".utf8))) }
    }

    func detach(_ task: WorkerTask) {}
    func runHasEnded(_ run: String) { cluster.noteRunEnd(run, at: name) }

    /// Forgets the bodies, which refer to the worker.
    func forget() { running = [:] }

    private func end(_ task: WorkerTask, _ payload: Payload) {
        if isDead || running.removeValue(forKey: ObjectIdentifier(task)) == nil { return }
        task.finish(payload)
    }
}

/// A coordinator and workers around a simulated server, and the known facts about their tasks.
final class SimulatedCluster: @unchecked Sendable {
    // Safety: one thread uses it.

    struct Member {
        let fabric: SimulatedFabric
        let worker: ClusterWorker
        let runner: SimulatedRunner
        var isAlive = true
    }

    final class Known: @unchecked Sendable {
        // Safety: one thread uses it.

        let body: Body
        let task: Coordinator.Task
        let submittedAt: Double
        var outcomes: [String] = []
        var begins: [String] = []
        var outputs: [String] = []
        var takenCount = 0
        var times: (began: Double, ended: Double)?
        var stoppedAt: Double?
        var stopReachedAt: Double?
        init(_ body: Body, _ task: Coordinator.Task, at time: Double) { (self.body, self.task, submittedAt) = (body, task, time) }
    }

    let simulation: Simulation
    let server: SimulatedServer
    let fabric: SimulatedFabric
    let coordinator: Coordinator
    var members: [Member] = []
    var known: [UInt64: Known] = [:]
    var failures: [String] = []
    /// When a body has begun or a task has ended, the last time.
    private(set) var lastMove = 0.0
    var runEnds: [(run: String, worker: String)] = []
    static let key = ClusterKey(Array("0123456789abcdef".utf8))
    let delay: ClosedRange<Double>
    /// Whether no fault keeps a worker from starting.
    let startsSurely: Bool

    init(seed: UInt64, startsSurely: Bool = true, delay: ClosedRange<Double> = 0.0001...0.001) {
        simulation = Simulation(seed: seed)
        server = SimulatedServer(simulation)
        (self.delay, self.startsSurely) = (delay, startsSurely)
        fabric = SimulatedFabric("coordinator", simulation, server, delay: delay)
        let notices = Locked<[String]>([])
        var events = Coordinator.Events()
        events.notice = { text in notices.withLock { $0.append(text) } }
        events.answer = { question, completion in completion(question.reversed()) }
        coordinator = Coordinator(fabric, key: Self.key, version: "1", events: events)
        readNotices = { notices.withLock { $0 } }
        coordinator.start { [self] error in if let error { fail("the coordinator does not start: \(error)") } }
    }

    /// Is called with the number of each task that begins.
    var beginHandler: (UInt64) -> Void = { _ in }
    /// Is called with the number of each task that ends.
    var endHandler: (UInt64) -> Void = { _ in }
    /// For each chain, the number of tasks that are left. The key is the task of the chain that was submitted last.
    private var chains: [UInt64: (body: Body, left: Int)] = [:]
    /// The notices of the coordinator.
    var notices: [String] { readNotices() }
    private let readNotices: () -> [String]

    @discardableResult
    func addWorker(slots: Int, key: ClusterKey? = SimulatedCluster.key, version: String = "1", keptBytes: Int = 1 << 20) -> Int {
        let name = "worker\(members.count + 1)"
        let fabric = SimulatedFabric(name, simulation, server, delay: delay)
        fabric.clockOffset = [1e6, 0, 0.4][members.count % 3]
        let runner = SimulatedRunner(name, self)
        let description = WorkerDescription(name: name, host: "host", version: version)
        let worker = ClusterWorker(fabric, key: key, description: description, slots: slots, keptBytes: keptBytes, runner: runner)
        members.append(Member(fabric: fabric, worker: worker, runner: runner))
        let index = members.count - 1
        worker.start { [self] error in
            guard let error else { return }
            if startsSurely { fail("\(name) does not start: \(error)") }
            kill(index)
        }
        return index
    }

    func kill(_ index: Int, serverNotice: Double = 0) {
        members[index].isAlive = false
        members[index].runner.isDead = true
        members[index].fabric.kill(serverNotice: serverNotice)
    }

    /// Each task has other bytes.
    static func bytes(_ number: UInt64, _ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 7, count: count)
        for index in 0..<min(count, 8) { bytes[index] = UInt8(truncatingIfNeeded: number >> UInt64(8 * index)) }
        return bytes
    }

    @discardableResult
    func submit(_ body: Body, isAtMostOnce: Bool = false, priority: UInt8 = 2) -> UInt64 {
        let contents = body.argumentCount == 0 ? [] : [Blob(copying: Self.bytes(7, body.argumentCount))]
        var task = Coordinator.Task(Payload(bytes: body.bytes, contents: contents))
        (task.isAtMostOnce, task.priority) = (isAtMostOnce, priority)
        let known = Known(body, task, at: simulation.now)
        let number = Locked<UInt64>(0)
        var handlers = Coordinator.Handlers { [self] outcome in
            note(outcome, of: number.withLock { $0 }, known)
            continueChain(after: number.withLock { $0 })
            endHandler(number.withLock { $0 })
        }
        handlers.taken = { [self] _ in
            known.takenCount += 1
            if !known.outcomes.isEmpty { fail("a task was taken after its end") }
        }
        handlers.output = { [self] _, bytes, _ in
            if !known.outcomes.isEmpty { fail("there was output after the end of a task") }
            known.outputs.append(String(decoding: bytes, as: UTF8.self))
        }
        let made = coordinator.submit(task, handlers)
        number.withLock { $0 = made }
        self.known[made] = known
        return made
    }

    /// Submits so many tasks, each when the one before has ended, as a queue does.
    func submitChain(of count: Int, _ body: Body) { chains[submit(body)] = (body, count - 1) }

    private func continueChain(after number: UInt64) {
        guard let (body, left) = chains.removeValue(forKey: number), left > 0 else { return }
        submitChain(of: left, body)
    }

    func stop(_ number: UInt64, _ request: StopRequest) {
        guard let task = known[number] else { return }
        if task.stoppedAt == nil { task.stoppedAt = simulation.now }
        let wasTaken = task.takenCount > 0
        coordinator.stop(number, request)
        if !wasTaken, task.takenCount == 0, task.outcomes.isEmpty, !task.task.isAtMostOnce {
            fail("task \(number) was taken by nobody and did not stop at once")
        }
    }

    /// Prints a message that the server receives or sends.
    func show(_ member: String, _ isForServer: Bool, _ subject: String, _ reply: String, _ bytes: [UInt8], _ status: Int) {
        var text = "\(bytes.count) bytes"
        if case .message(let opened) = Seal(key: Self.key).open(bytes, from: subject, reply: reply), let message = try? Message(opened) {
            text = String(String(describing: message).prefix(300))
        } else if bytes.count < 300, !bytes.starts(with: "opc".utf8) {
            text = String(decoding: bytes, as: UTF8.self)
        }
        if text.contains("hello(") { return }
        print("\(simulation.now) \(member) \(isForServer ? "->" : "<-") \(subject) \(status == 0 ? "" : "status \(status) ")\(text)")
    }

    func fail(_ text: String) { failures.append("at \(simulation.now): \(text)") }

    // MARK: what happens

    func noteBegin(_ task: WorkerTask, by name: String) {
        // Tests may have other coordinators.
        guard task.run == coordinator.run else { return }
        guard let known = known[task.number] else { return fail("an unknown task begins") }
        known.begins.append(name)
        lastMove = simulation.now
        beginHandler(task.number)
        if known.task.isAtMostOnce, known.begins.count > 1 { fail("task \(task.number) begins twice: \(known.begins)") }
        let entry = coordinator.state.withLock { $0.entries[task.number] }
        if known.task.isAtMostOnce, let entry, entry.claim == nil || entry.attempt != task.job.attempt {
            fail("task \(task.number) begins without a claim of its own")
        }
        if task.blobs.map(\.name.count) != (known.body.argumentCount == 0 ? [] : [known.body.argumentCount]) {
            fail("task \(task.number) begins without its blobs")
        }
    }

    func noteStop(_ task: WorkerTask, _ request: StopRequest) {
        guard task.run == coordinator.run, let known = known[task.number] else { return }
        if known.stopReachedAt == nil, known.stoppedAt != nil { known.stopReachedAt = simulation.now }
    }

    func noteRunEnd(_ run: String, at worker: String) { runEnds.append((run, worker)) }

    private func note(_ outcome: Coordinator.Outcome, of number: UInt64, _ known: Known) {
        lastMove = simulation.now
        switch outcome {
        case .ended(let payload, _, let began, let ended):
            let text = String(decoding: payload.bytes, as: UTF8.self)
            known.outcomes.append(text)
            known.times = (began, ended)
            if text.hasPrefix("interrupted"), known.stoppedAt == nil { fail("task \(number) ended as interrupted, and nobody stopped it") }
            if text.hasPrefix("done") {
                if text != "done \(number)" { fail("task \(number) got the outcome '\(text)'") }
                if payload.contents.map(\.name.count) != (known.body.resultCount == 0 ? [] : [known.body.resultCount]) {
                    fail("task \(number) has no blobs")
                }
                if let blob = payload.contents.first,
                    blob.piece(at: 0, count: 100) != Array(Self.bytes(number, known.body.resultCount).prefix(100))
                {
                    fail("task \(number) has wrong blobs")
                }
                if abs(ended - began - known.body.seconds) > 1e-6 {
                    fail("task \(number) took \(ended - began) s, not \(known.body.seconds)")
                }
                if known.begins.isEmpty { fail("task \(number) ended without a beginning") }
            }
            if began < known.submittedAt || began > ended || ended > simulation.now {
                fail("task \(number) has the times \(began) and \(ended)")
            }
        case .stopped:
            known.outcomes.append("stopped")
            if known.stoppedAt == nil { fail("task \(number) was stopped by nobody") }
        case .lost(let workers): known.outcomes.append("lost: \(workers.joined(separator: ", "))")
        case .refused(let text): known.outcomes.append("refused: \(text)")
        }
        if known.outcomes.count > 1 { fail("task \(number) has the outcomes \(known.outcomes)") }
        // Each worker's output arrives in order and without gaps. A worker that runs the task again begins with 0.
        var lastIndex: [Substring: Int] = [:]
        for line in known.outputs {
            let parts = line.dropLast().split(separator: " ")
            guard parts.count == 2, let index = Int(parts[1]) else { continue }
            if index != lastIndex[parts[0], default: -1] + 1, index != 0 { fail("task \(number) has the output \(known.outputs)") }
            lastIndex[parts[0]] = index
        }
        if known.begins.count == 1, known.takenCount == 1, known.outcomes == ["done \(number)"],
            known.outputs.count != known.body.outputCount
        {
            fail("task \(number) has \(known.outputs.count) of \(known.body.outputCount) lines of output")
        }
    }

    /// Ends the cluster, and breaks the cycles of its references.
    func end() {
        coordinator.close()
        for member in members { member.worker.close() }
        simulation.run(until: simulation.now + 0.1)
        for fabric in members.map(\.fabric) + [fabric] { fabric.forget() }
        for member in members { member.runner.forget() }
        server.intruder = nil
        (server.trace, beginHandler, endHandler) = (nil, { _ in }, { _ in })
        server.removeStreams()
        simulation.end()
    }

    /// Whether tasks wait, and no body runs.
    var standsStill: Bool { !unfinished.isEmpty && members.allSatisfy { !$0.isAlive || $0.runner.running.isEmpty } }

    /// The unfinished tasks, and the state of the members, for a person.
    var state: String {
        let tasks = coordinator.state.withLock { state in
            state.entries.sorted { $0.key < $1.key }.prefix(5).map { number, entry in
                "task \(number) of \(state.entries.count), attempt \(entry.attempt), holder \(entry.holder ?? "none"), "
                    + "\(entry.isInStream ? "" : "not ")in the stream, \(entry.claim == nil ? "no " : "")claim, "
                    + "\(entry.declineCount) times given back, stop \(entry.stop.map { "\($0)" } ?? "none"), \(entry.outcomes.count) outcomes"
            }
        }
        let workers = members.filter(\.isAlive).map { member in
            member.worker.state.withLock { state in
                "\(member.runner.name) \(member.worker.id): \(state.running.count) running, \(state.preparing.count) preparing, "
                    + "\(state.waiting.count) waiting, \(state.pulls.map(\.count)) pulls"
            }
        }
        return (tasks + workers + ["\(server.storedCount) jobs in the stream"]).joined(separator: "; ")
    }

    var unfinished: [UInt64] { known.filter { $0.value.outcomes.isEmpty }.map(\.key).sorted() }
}
