import CPlatform
import Glibc
import OpPlatform
import Synchronization

/// Replaces the thread pool of a simulated engine. See `Engine.Simulation`.
final class SimulatedWorkers: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because only the creating thread may call the methods, and `schedule` checks this.
    // Only one thread changes the properties, so accesses need no exclusivity checks.

    private let thread = cplatform_thread_id()
    /// The scheduled queues and the thread groups they were scheduled on.
    @safe @exclusivity(unchecked) private var scheduled: [(queue: ServedQueue, group: ThreadGroup, level: UInt8)] = []
    /// The number of those with another priority than the usual one.
    @safe @exclusivity(unchecked) private var specialCount = 0
    @safe @exclusivity(unchecked) private var random: UInt64
    @safe @exclusivity(unchecked) var now = ContinuousClock.now
    let timers = Timers(isManual: true)
    /// Whether the thread currently acts as a worker rather than as the main thread.
    @safe @exclusivity(unchecked) private(set) var isServing = false

    init(seed: UInt64) { random = seed }

    var isIdle: Bool { scheduled.isEmpty && !isServing }

    func schedule(_ queue: ServedQueue, on group: ThreadGroup) {
        guard cplatform_thread_id() == thread else {
            fatalError("opscript: a simulated engine was used on another thread than the one that made it")
        }
        let level = queue.level.load(ordering: .relaxed)
        if level != ServedQueue.usualLevel { specialCount += 1 }
        scheduled.append((queue, group, level))
    }

    /// Takes one operation and runs it. Returns false if none may run.
    func step(_ context: ThreadContext) -> Bool {
        repeat { if takeOne(context) { return true } } while fireNextTimer(before: nil)
        return false
    }

    /// Takes one operation that may run now, and runs it. Returns false if there is none.
    private func takeOne(_ context: ThreadContext) -> Bool {
        while !scheduled.isEmpty {
            let (queue, group, level) = scheduled.remove(at: nextIndex)
            if level != ServedQueue.usualLevel { specialCount -= 1 }
            // Taking an operation schedules the queue again if there are more, so that a wait inside the operation finds them.
            if asWorker(of: queue, context, { queue.runOne(on: context, by: group, finishesLater: false) }) { return true }
        }
        return false
    }

    /// The index of one of the scheduled queues with the highest priority.
    private var nextIndex: Int {
        if specialCount == 0 { return choose(among: scheduled.count) }
        var best = UInt8.max, count = 0
        for entry in scheduled {
            if entry.level < best { (best, count) = (entry.level, 0) }
            if entry.level == best { count += 1 }
        }
        var left = choose(among: count)
        for index in scheduled.indices where scheduled[index].level == best {
            if left == 0 { return index }
            left -= 1
        }
        fatalError("opscript bug: none of the scheduled queues was chosen")
    }

    /// Advances the clock to the next timer that is not after `deadline`, and calls its function. Returns false if there is no such timer.
    private func fireNextTimer(before deadline: ContinuousClock.Instant?) -> Bool {
        guard let next = timers.next, next <= deadline ?? next else { return false }
        now = max(now, next)
        return timers.fire(at: now)
    }

    /// Performs steps until the wait is over.
    func run(
        _ context: ThreadContext, _ inbox: Inbox, until predicate: () -> Bool, deadline: ContinuousClock.Instant?
    ) -> Inbox.Outcome {
        while true {
            if predicate() { return .satisfied }
            if let deadline, now >= deadline { return .timedOut }
            // If a run of the main inbox is further down this stack, that inbox may have something to run.
            let isMainRunning = !context.mainRuns.isEmpty
            if isMainRunning, choose(among: 2) == 0, asMainThread({ inbox.runOne(context) }) { continue }
            if takeOne(context) { continue }
            if isMainRunning, asMainThread({ inbox.runOne(context) }) { continue }
            if fireNextTimer(before: deadline) { continue }
            guard let deadline else { return .stalled }
            now = deadline
        }
    }

    private func asWorker<Result>(of queue: ServedQueue, _ context: ThreadContext, _ body: () -> Result) -> Result {
        let before = unsafe (isServing, context.simulation)
        isServing = true
        // Safety: the caller of a step retains the engine.
        unsafe context.simulation = queue.engine
        defer { unsafe (isServing, context.simulation) = before }
        return body()
    }

    private func asMainThread<Result>(_ body: () -> Result) -> Result {
        let before = isServing
        isServing = false
        defer { isServing = before }
        return body()
    }

    /// The next pseudorandom number below `count` (SplitMix64).
    func choose(among count: Int) -> Int {
        random &+= 0x9E37_79B9_7F4A_7C15
        var mixed = random
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((mixed ^ (mixed >> 31)) % UInt64(count))
    }
}
