extension Operation {
    /// The priority of an operation among the ready operations of its queue.
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

        /// Rounds `value` towards normal to the next level: 7 becomes `high`, -5 becomes `low`, 3 becomes `normal`.
        public init(nearestTo value: Int) {
            switch value {
            case 8...: self = .veryHigh
            case 4...: self = .high
            case ...(-8): self = .veryLow
            case ...(-4): self = .low
            default: self = .normal
            }
        }

        /// The index of the priority in a queue's ready list, from 0 for `veryHigh` to 4 for `veryLow`.
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
