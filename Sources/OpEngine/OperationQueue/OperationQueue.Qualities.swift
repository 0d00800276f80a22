/// A quality of service as a number that orders them. 0: nothing was said.
struct QualityRank: Equatable {
    private(set) var value: UInt8

    static let unspecified = QualityRank(value: 0)
    static let `default` = QualityRank(value: 3)
    static let count = 6

    private init(value: UInt8) { self.value = value }

    /// `default` says nothing.
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

    /// What an operation's atomic byte holds: the rank of its quality, and four bits above it that of its thread priority.
    init(ofRequest request: UInt8) { value = request & 0xF == 0 ? request >> 4 : request & 0xF }

    /// Below the middle a thread priority asks for the groups with a higher nice value.
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
    /// An operation's own quality wins over the queue's. While one in the queue asks for a higher one than the queue has, the whole
    /// queue has that one, so that what is in front of it does not hold it up.
    struct Qualities {
        /// What the queue was given.
        var own = QualityRank.unspecified { didSet { update() } }
        /// A main queue, or one with an executor: no worker runs its operations.
        var isOutside = false { didSet { update() } }
        /// Nothing was ever said: everything runs in the foreground.
        private(set) var areOrdinary = true
        /// How many operations in the queue ask for each rank.
        private var counts = InlineArray<6, UInt32>(repeating: 0)
        /// The ranks whose count is not 0.
        private var asked: UInt8 = 0

        private mutating func update() { areOrdinary = own == .unspecified && !isOutside && asked == 0 }

        /// An operation has joined, or asks for another one.
        @inline(never)
        mutating func count(_ operation: Operation, as rank: QualityRank) {
            uncount(operation)
            operation.countedRank = rank
            if rank == .unspecified { return }
            counts[Int(rank.value)] += 1
            asked |= 1 << rank.value
            update()
        }

        /// An operation leaves.
        @inline(never)
        mutating func uncount(_ operation: Operation) {
            let index = Int(operation.countedRank.value)
            if index == 0 { return }
            operation.countedRank = .unspecified
            counts[index] -= 1
            if counts[index] == 0 { asked &= ~(1 << UInt8(index)) }
            update()
        }

        /// The threads that run `operation` when it is the next.
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
