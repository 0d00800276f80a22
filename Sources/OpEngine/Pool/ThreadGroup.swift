import CPlatform

/// The threads that an operation may run on.
///
/// Each group of workers has its own nice value, which a thread keeps from start to end: without privileges, a thread cannot lower its nice
/// value again.
enum ThreadGroup: UInt8 {
    /// The process's own nice value. For `userInteractive`, `userInitiated` and `default`.
    case foreground
    /// Nice value 5: about a third of a foreground thread's processor time when both compete. For `utility`.
    case utility
    /// Nice value 10: about a tenth. For `background`.
    case background
    /// Not a worker: a thread that drains a main queue, or a thread of an executor.
    case outside

    /// The groups that have workers.
    static let ofWorkers: [ThreadGroup] = [.foreground, .utility, .background]

    /// The group's bit in a set of groups.
    @inline(__always) var bit: UInt8 { 1 << rawValue }

    /// The most important group in a set, which must not be empty.
    @inline(__always)
    init(firstIn set: UInt8) { self = ThreadGroup(rawValue: UInt8(set.trailingZeroBitCount)) ?? .outside }

    /// Sets the nice value of the calling thread, which has just started. Has no effect if the process's own nice value is not lower.
    func enter() {
        let nice: Int32
        switch self {
        case .foreground, .outside: return
        case .utility: nice = 5
        case .background: nice = 10
        }
        if cplatform_nice(0) < nice { cplatform_set_nice(nice) }
    }
}
