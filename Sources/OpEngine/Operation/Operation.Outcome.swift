extension Operation {
    /// How an operation ended.
    public enum Outcome: Sendable, Hashable {
        /// It did its work.
        case succeeded
        /// It recorded an error.
        case failed
        /// It was cancelled, before it started or while it ran.
        case cancelled
    }

    /// When an operation with dependencies runs.
    public enum DependencyPolicy: Sendable, Hashable {
        /// When its dependencies have finished, however they ended. Foundation knows only this one.
        case finished
        /// When its dependencies have succeeded; it is cancelled when one failed or was cancelled.
        case succeeded
    }

    /// Where an operation stands among the ready operations of its queue.
    public enum QueuePriority: Int, Sendable, Hashable, CaseIterable {
        /// Runs after all others.
        case veryLow = -8
        /// Runs after normal operations.
        case low = -4
        /// The default.
        case normal = 0
        /// Runs before normal operations.
        case high = 4
        /// Runs before all others.
        case veryHigh = 8

        /// The nearest level towards normal: 7 is `high`, -5 is `low`, 3 is `normal`.
        public init(nearestTo value: Int) {
            switch value {
            case 8...: self = .veryHigh
            case 4...: self = .high
            case ...(-8): self = .veryLow
            case ...(-4): self = .low
            default: self = .normal
            }
        }

        /// 0 for `veryHigh` to 4 for `veryLow`: its bit in a queue's list of those that are ready.
        @inline(__always) var level: UInt8 { UInt8(2 - rawValue / 4) }

        @inline(__always) init(level: UInt8) {
            switch level {
            case 0: self = .veryHigh
            case 1: self = .high
            case 3: self = .low
            case 4: self = .veryLow
            default: self = .normal
            }
        }
    }
}

/// How much a piece of work matters to the user.
public enum QualityOfService: Int, Sendable, Hashable, CaseIterable {
    /// The user waits for it and looks at it.
    case userInteractive = 33
    /// The user asked for it and waits.
    case userInitiated = 25
    /// The user does not wait.
    case utility = 17
    /// The user does not see it.
    case background = 9
    /// Nothing was said.
    case `default` = -1
}
