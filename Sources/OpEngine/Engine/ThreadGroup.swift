import CPlatform
import Synchronization

/// The threads that a piece of work may run on. Each group of workers has a nice value of its own, which its threads have from
/// their start to their end: without privileges a thread cannot lower its nice value again, so none is ever changed.
enum ThreadGroup: UInt8, CaseIterable {
    /// The process's own nice value: `userInteractive`, `userInitiated` and `default`.
    case foreground
    /// Nice 5, a third of the processor time that a foreground thread gets beside it: `utility`.
    case utility
    /// Nice 10, a tenth: `background`.
    case background
    /// No worker: the thread that drains a main queue, or an executor.
    case outside

    /// How many groups of workers there are.
    static let workerGroups = 3

    /// The bit of a set of groups.
    @inline(__always) var bit: UInt8 { 1 << rawValue }

    /// The lowest group in a set that is not empty.
    @inline(__always)
    init(firstIn set: UInt8) {
        self =
            switch set.trailingZeroBitCount {
            case 0: .foreground
            case 1: .utility
            case 2: .background
            default: .outside
            }
    }

    /// Gives the calling thread, which has just started, the group's nice value; a process that is nicer keeps its own.
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
