import OpEngine
import Synchronization

extension Runtime {
    /// The most that scripts of a runtime may use; nil for no limit. `Configuration.stateMemoryLimit` is the limit of each Lua state.
    ///
    /// A *run* is one call of the host into the main state, such as `Runtime.run`, with everything that results from it: the operations
    /// that it adds or starts, its timers, completion blocks and observers, and what these start in turn. All of them share the run's
    /// seconds and instructions. When these are used up, no code of the run is called any more. An operation that the host adds is a run of
    /// its own.
    ///
    /// Exceeding time, memory or instructions stops the code, and `pcall` does not catch that. Exceeding another limit is an error that
    /// names the limit.
    public struct Limits: Sendable {
        /// The seconds that an operation's function may run, waits included. An operation's own `timeout` may be lower.
        public var operationSeconds: Double?
        /// The bytes by which an operation's function may let its state grow. An operation's own `memoryLimit` may be lower.
        public var operationMemory: Int?
        /// The instructions of an operation's function, to the nearest thousand. The steps of loops in C count, and a new coroutine counts
        /// as a thousand. Code with this limit takes about twice as long.
        public var operationInstructions: Int?
        /// The seconds that a run may take from its beginning, waits included.
        public var runSeconds: Double?
        /// The instructions of a run. Each callback and each operation counts as at least a thousand.
        public var runInstructions: Int?
        /// The bytes of the values that leave a state at once: the results of an operation, a function with its arguments and captured
        /// values, or a value that is stored in an operation.
        public var valueBytes: Int?
        /// The bytes that the host keeps for all scripts of the runtime, outside of their Lua states: fields, names and other properties of operations,
        /// arguments and captured values of what waits, results, errors, what waits in channels, frozen values, queues, timers, observers, and
        /// the output of programs. A value that several of these share counts once. An output of a running program counts as its `captureLimit`,
        /// which is at most an eighth of the limit.
        ///
        /// The call that would exceed the limit raises an error. Before that, the runtime collects the garbage of the calling state.
        public var memory: Int?
        /// The number of values that one operation may store under names of the script's own. The numbers of its keys, needs and conditions,
        /// and of the elements of its `inputs`, `outputs` and `env`, have the same limit.
        public var storedValues: Int?
        /// The bytes of the values that wait in all channels of the runtime; nil for `Configuration.stateMemoryLimit`. A channel itself counts as
        /// 256 bytes.
        public var channelBytes: Int?
        /// The bytes that all states together may print, or write to files.
        public var outputBytes: Int?
        /// The programs of `opscript.process` and `opscript.sh` that may run at once.
        public var processes: Int?
        /// The operations that scripts may add or start, in the runtime's life. Another attempt of an operation counts as one.
        public var operations: Int?
        /// The unfinished operations in one queue.
        public var queueLength: Int?
        /// The queues and groups that scripts may make, in the runtime's life.
        public var queues: Int?
        /// The pending timers.
        public var timers: Int?

        /// No limits.
        public init() {}

        /// Limits for untrusted scripts. These limits let a script compute for a few seconds, but not use up the machine.
        public static var untrusted: Limits {
            var limits = Limits()
            limits.operationSeconds = 5
            limits.operationMemory = 64 << 20
            limits.runSeconds = 5
            limits.valueBytes = 1 << 20
            // Twice the memory that hosts give a state: results that a script reads are at both places.
            limits.memory = 256 << 20
            limits.storedValues = 100
            limits.channelBytes = 16 << 20
            limits.outputBytes = 1 << 20
            limits.processes = 0
            limits.operations = 10_000
            limits.queueLength = 1_000
            limits.queues = 100
            limits.timers = 100
            return limits
        }
    }
}

/// The consumption of a runtime's scripts. Safe from every thread.
final class Usage: Sendable {
    let limits: Runtime.Limits
    private let operations = Atomic<Int>(0)
    private let queues = Atomic<Int>(0)
    private let timers = Atomic<Int>(0)
    private let processes = Atomic<Int>(0)
    private let channelBytes = Atomic<Int>(0)
    private let mostChannelBytes: Int?
    /// Whether adding an operation needs a check of the limits.
    let limitsAdding: Bool
    let limitsOperations: Bool
    let limitsRuns: Bool

    init(_ limits: Runtime.Limits, stateMemoryLimit: Int? = nil) {
        self.limits = limits
        mostChannelBytes = limits.channelBytes ?? stateMemoryLimit
        limitsRuns = limits.runSeconds != nil || limits.runInstructions != nil
        limitsAdding =
            limits.operations != nil || limits.queueLength != nil || limits.valueBytes != nil || limits.memory != nil || limitsRuns
        limitsOperations =
            limits.operationSeconds != nil || limits.operationMemory != nil || limits.operationInstructions != nil || limitsRuns
    }

    /// Takes `count` from the amount that `limit` allows.
    ///
    /// - Throws: an error that names the limit if none is left.
    private func take(_ count: Int = 1, from used: borrowing Atomic<Int>, _ limit: Int?, _ what: String, _ name: String) throws(CallError) {
        guard let limit else { return }
        var known = used.load(ordering: .relaxed)
        while true {
            if known + count > limit { throw .message("the limit of \(limit) \(what) is reached (limits.\(name))") }
            let (exchanged, original) = used.weakCompareExchange(expected: known, desired: known + count, ordering: .relaxed)
            if exchanged { return }
            known = original
        }
    }

    func takeOperations(_ count: Int) throws(CallError) { try take(count, from: operations, limits.operations, "operations", "operations") }

    /// Gives back the count of operations that the engine has refused.
    func returnOperations(_ count: Int) { if limits.operations != nil { operations.wrappingSubtract(count, ordering: .relaxed) } }

    /// - Throws: an error that names the limit if `queue` cannot take `count` more operations.
    func checkAdding(_ count: Int, to queue: OperationQueue) throws(CallError) {
        if let limit = limits.queueLength, queue.operationCount + count > limit {
            throw .message("\(queue.displayName) may have at most \(limit) unfinished operations (limits.queueLength)")
        }
        try takeOperations(count)
    }

    func takeQueue() throws(CallError) { try take(from: queues, limits.queues, "queues", "queues") }

    func takeTimer() throws(CallError) { try take(from: timers, limits.timers, "pending timers", "timers") }

    func returnTimer() { if limits.timers != nil { timers.wrappingSubtract(1, ordering: .relaxed) } }

    func takeProcess() throws(CallError) { try take(from: processes, limits.processes, "running programs", "processes") }

    var limitsChannels: Bool { mostChannelBytes != nil }

    func takeChannelBytes(_ count: Int) throws(CallError) {
        try take(count, from: channelBytes, mostChannelBytes, "bytes in channels", "channelBytes")
    }

    /// Counts bytes of the host's, which are not limited.
    func addChannelBytes(_ count: Int) { if limitsChannels { channelBytes.wrappingAdd(count, ordering: .relaxed) } }

    func returnChannelBytes(_ count: Int) { if limitsChannels { channelBytes.wrappingSubtract(count, ordering: .relaxed) } }

    func returnProcess() { if limits.processes != nil { processes.wrappingSubtract(1, ordering: .relaxed) } }
}
