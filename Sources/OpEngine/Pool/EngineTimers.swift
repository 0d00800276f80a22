import Glibc
import OpPlatform
import Synchronization

/// Calls functions at moments of an engine's clock, for retries and rate limits. A thread of its own waits for the next moment, while a
/// timer is set. In a simulated engine, `SimulatedWorkers` calls the functions.
final class EngineTimers: Sendable {
    /// Identifies a timer of an engine.
    typealias Number = UInt64

    private struct Timer {
        let deadline: ContinuousClock.Instant
        let number: Number
        let body: @Sendable () -> Void
    }

    private struct State {
        /// The timers, the latest first.
        var timers: [Timer] = []
        var lastNumber: Number = 0
        var hasThread = false
    }

    private let state = Guarded(State())
    private let parker = Parker()

    /// Sets a timer that calls `body` at a moment, on a thread that `body` must not block. The engine counts as busy until then.
    func set(at deadline: ContinuousClock.Instant, on engine: Engine, _ body: @escaping @Sendable () -> Void) -> Number {
        engine.hold()
        let (number, startsThread) = state.withLock { state -> (Number, Bool) in
            state.lastNumber += 1
            let number = state.lastNumber
            let timer = Timer(deadline: deadline, number: number) {
                body()
                engine.release()
            }
            let index = state.timers.firstIndex { $0.deadline <= deadline } ?? state.timers.count
            state.timers.insert(timer, at: index)
            if state.hasThread || engine.simulated != nil { return (number, false) }
            state.hasThread = true
            return (number, true)
        }
        if startsThread {
            ThreadStarter.startThread {
                self.run()
            } orElse: {
                fatalError("opscript: cannot start a thread: the limit of processes, or of memory, is reached")
            }
        } else if engine.simulated == nil {
            parker.unpark()
        }
        return number
    }

    /// Removes a timer whose function has not been called.
    func cancel(_ number: Number, on engine: Engine) {
        let removed = state.withLock { state -> Timer? in
            state.timers.firstIndex { $0.number == number }.map { state.timers.remove(at: $0) }
        }
        guard removed != nil else { return }
        if engine.simulated == nil { parker.unpark() }
        engine.release()
    }

    /// The moment of the next timer.
    var next: ContinuousClock.Instant? { state.withLock { $0.timers.last?.deadline } }

    /// Calls the functions whose moment has come. Returns false if there were none.
    @discardableResult
    func fire(at now: ContinuousClock.Instant) -> Bool {
        var hasFired = false
        while let timer = state.withLock({ state in (state.timers.last?.deadline ?? .now) <= now ? state.timers.popLast() : nil }) {
            timer.body()
            hasFired = true
        }
        return hasFired
    }

    private func run() {
        pthread_detach(pthread_self())
        while true {
            fire(at: .now)
            let next = state.withLock { state -> ContinuousClock.Instant? in
                if state.timers.isEmpty { state.hasThread = false }
                return state.timers.last?.deadline
            }
            guard let next else { return }
            _ = parker.park(until: next)
        }
    }
}
