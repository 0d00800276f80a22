import CPlatform
import Glibc

/// What an engine has instead of a pool of threads when it is simulated. See `Engine.Simulation`.
final class SimulatedWorkers: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the thread that made it may call it, which is checked.
    private let thread = cplatform_thread_id()
    /// Queues that have something to run, and on which threads.
    private var scheduled: [(core: OperationQueue.Core, group: ThreadGroup)] = []
    private var random: UInt64
    var now = ContinuousClock.now
    /// The thread is a worker now, not the main thread.
    private(set) var isServing = false

    init(seed: UInt64) { random = seed }

    var isIdle: Bool { scheduled.isEmpty && !isServing }

    func schedule(_ core: OperationQueue.Core, on group: ThreadGroup) {
        guard cplatform_thread_id() == thread else {
            fatalError("a simulated engine was used on another thread than the one that made it")
        }
        scheduled.append((core, group))
    }

    /// Takes one operation and runs it. False when none may run.
    func step(_ context: ThreadContext) -> Bool {
        while !scheduled.isEmpty {
            let (core, group) = scheduled.remove(at: choose(among: scheduled.count))
            // Taking schedules the queue again when there is more, so that a wait inside the operation finds it.
            if asWorker(of: core, context, { core.runOne(on: context, by: group) }) { return true }
        }
        return false
    }

    /// Takes steps until the wait is over.
    func run(
        _ context: ThreadContext, _ inbox: Inbox, until predicate: () -> Bool, deadline: ContinuousClock.Instant?
    ) -> Inbox.Outcome {
        while true {
            if predicate() { return .satisfied }
            if let deadline, now >= deadline { return .timedOut }
            // The main thread, if it lies below, runs what it is sent.
            let isMainRunning = !context.runningInboxes.isEmpty
            if isMainRunning, choose(among: 2) == 0, asMainThread({ inbox.runOne(context) }) { continue }
            if step(context) { continue }
            if isMainRunning, asMainThread({ inbox.runOne(context) }) { continue }
            guard let deadline else { return .stalled }
            now = deadline
        }
    }

    private func asWorker<Result>(of core: OperationQueue.Core, _ context: ThreadContext, _ body: () -> Result) -> Result {
        let before = unsafe (isServing, context.simulation)
        isServing = true
        // Safety: whoever takes the step holds the engine.
        unsafe context.simulation = core.engine
        defer { unsafe (isServing, context.simulation) = before }
        return body()
    }

    private func asMainThread<Result>(_ body: () -> Result) -> Result {
        let before = isServing
        isServing = false
        defer { isServing = before }
        return body()
    }

    /// The next number below `count` (SplitMix64).
    private func choose(among count: Int) -> Int {
        random &+= 0x9E37_79B9_7F4A_7C15
        var mixed = random
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((mixed ^ (mixed >> 31)) % UInt64(count))
    }
}
