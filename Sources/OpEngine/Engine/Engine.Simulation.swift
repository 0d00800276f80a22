extension Engine {
    /// An engine without threads, for tests: whoever holds it decides when something runs, the seed decides what, and time passes only
    /// when nothing else is left to do. The same seed and the same calls give the same order of events.
    ///
    /// ```swift
    /// let simulation = Engine.Simulation(seed: 42)
    /// let queue = OperationQueue(engine: simulation.engine)
    /// queue.addOperation { … }
    /// while simulation.step() {}
    /// ```
    ///
    /// A step runs one operation of one queue, as a worker would: `start` to its return. Waiting, on the simulation's thread, takes
    /// steps until the wait is over; so operations that wait are nested on one stack, and one that waits for another which lies below
    /// it on the stack fails with `OperationError.neverFinishes`. A deadline is a moment of `now`, to which the clock jumps when
    /// nothing can run; it makes no one sleep. Only a wait, outside of operations, for one that is in no queue knows no simulation and
    /// sleeps as usual. Everything is to be called on the thread that made the simulation.
    public struct Simulation: Sendable {
        /// What to make queues of. Its main queue belongs to the thread that made the simulation.
        public let engine: Engine
        private let workers: SimulatedWorkers

        /// Makes an engine whose choices follow from `seed`.
        public init(seed: UInt64) {
            workers = SimulatedWorkers(seed: seed)
            engine = Engine(simulatedBy: workers)
        }

        /// Runs one operation that may run now, chosen by the seed among the queues that have one. False when there is none. The main
        /// queue is not among them: `engine.mainInbox` drains it.
        @discardableResult
        public func step() -> Bool { workers.step(ThreadContext.current) }

        /// The simulated time, for deadlines.
        public var now: ContinuousClock.Instant { workers.now }

        /// Lets time pass. Nothing runs.
        public func advance(by duration: Duration) { workers.now += duration }
    }
}
