/// A quality of service as an ordered number. 0 means unspecified.
struct QualityRank: Equatable {
    private(set) var value: UInt8

    static let unspecified = QualityRank(value: 0)
    static let `default` = QualityRank(value: 3)
    static let count = 6

    private init(value: UInt8) { self.value = value }

    /// `default` counts as unspecified.
    init(_ quality: QualityOfService) {
        value =
            switch quality {
            case .background: 1
            case .utility: 2
            case .default: 0
            case .userInitiated: 4
            case .userInteractive: 5
            }
    }

    /// Decodes an operation's request byte. The lower four bits hold the rank of its quality of service, the upper four that of its thread
    /// priority.
    init(ofRequest request: UInt8) { value = request & 0xF == 0 ? request >> 4 : request & 0xF }

    /// Maps thread priorities below 0.5 to the groups with higher nice values.
    init(threadPriority: Double) {
        value = threadPriority < 0.25 ? 1 : threadPriority < 0.5 ? 2 : threadPriority > 0.5 ? 4 : 0
    }

    init(highestIn set: UInt8) { value = set == 0 ? 0 : UInt8(7 - set.leadingZeroBitCount) }

    var quality: QualityOfService {
        switch value {
        case 1: .background
        case 2: .utility
        case 4: .userInitiated
        case 5: .userInteractive
        default: .default
        }
    }

    var group: ThreadGroup { value == 1 ? .background : value == 2 ? .utility : .foreground }
}

extension OperationQueue {
    /// Decides which threads run the operations of a queue. Guarded by the queue's lock.
    ///
    /// An operation's quality takes precedence over the queue's. While an operation in the queue requests a higher quality than the queue
    /// has, the whole queue is raised to it, so that the operations in front do not delay it.
    struct Qualities {
        /// The quality that was set on the queue.
        var own = QualityRank.unspecified { didSet { update() } }
        /// Whether the queue is a main queue or has an executor, so that no worker runs its operations.
        var isOutside = false { didSet { update() } }
        /// Whether workers run the queue and no quality is specified, so that all operations run in the foreground.
        private(set) var areOrdinary = true
        /// The number of operations in the queue that request each rank.
        private var counts = InlineArray<6, UInt32>(repeating: 0)
        /// The set of ranks whose count is not 0, as bits.
        private var asked: UInt8 = 0

        private mutating func update() { areOrdinary = own == .unspecified && !isOutside && asked == 0 }

        /// Counts an operation that was added or that requests a new rank.
        @inline(never)
        mutating func count(_ operation: Operation, as rank: QualityRank) {
            uncount(operation)
            operation.countedRank = rank
            if rank == .unspecified { return }
            counts[Int(rank.value)] += 1
            asked |= 1 << rank.value
            update()
        }

        /// Stops counting an operation that leaves or requests a new rank.
        @inline(never)
        mutating func uncount(_ operation: Operation) {
            let index = Int(operation.countedRank.value)
            if index == 0 { return }
            operation.countedRank = .unspecified
            counts[index] -= 1
            if counts[index] == 0 { asked &= ~(1 << UInt8(index)) }
            update()
        }

        /// The thread group that runs `operation` if it is next.
        @inline(never)
        func group(for operation: Operation?) -> ThreadGroup {
            if isOutside { return .outside }
            let base = own == .unspecified ? QualityRank.default : own
            let highest = QualityRank(highestIn: asked)
            if highest.value > base.value { return highest.group }
            guard let rank = operation?.countedRank, rank != .unspecified else { return base.group }
            return rank.group
        }
    }
}
