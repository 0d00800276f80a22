import CPlatform
import OpPlatform

extension Engine {
    /// A deterministic engine without threads, for tests. The owner decides when something runs, the seed decides what, and time advances
    /// only when nothing else is left to do. The same seed and the same calls produce the same order of events.
    ///
    /// ```swift
    /// let simulation = Engine.Simulation(seed: 42)
    /// let queue = OperationQueue(engine: simulation.engine)
    /// queue.addOperation { … }
    /// while simulation.step() {}
    /// ```
    ///
    /// A step runs one operation of one queue as a worker would, from the call of `start` to its return. A wait on the simulation's thread
    /// performs steps until the wait is over, so operations that wait are nested on one stack. A wait for an operation below on the stack fails
    /// with `OperationError.neverFinishes`. A deadline is a value of `now`; the clock jumps to it when nothing can run, and no thread sleeps.
    /// The only exception is a wait outside operations for an operation that is in no queue: that wait sleeps as usual. Call everything on the
    /// thread that created the simulation.
    public struct Simulation: Sendable {
        /// The engine to create queues with. Its main queue belongs to the thread that created the simulation.
        public let engine: Engine
        private let workers: SimulatedWorkers

        /// Creates an engine whose choices are determined by `seed`.
        public init(seed: UInt64) {
            workers = SimulatedWorkers(seed: seed)
            engine = Engine(workerCount: 1, mainThread: cplatform_thread_id(), simulated: workers)
        }

        /// Runs one operation that may run now, of a queue chosen by the seed. If there is none, advances the time until one may run that
        /// has waited for a retry or a rate limit. Returns false if nothing is left. Does not run the main queue: `engine.mainInbox` drains
        /// it.
        @discardableResult
        public func step() -> Bool { workers.step(ThreadContext.current) }

        /// The simulated time, to compute deadlines from.
        public var now: ContinuousClock.Instant { workers.now }

        /// Advances the simulated time. Runs no operation.
        public func advance(by duration: Duration) {
            workers.now += duration
            workers.timers.fire(at: workers.now)
        }
    }
}
