import CPlatform
import Synchronization

/// The ready operations of a queue: a list for each priority, first in, first out.
struct ReadyLists {
    private var normal = OperationList<ReadyField>()
    /// One bit for each list that is not empty; the lowest is the highest priority.
    private var occupied: UInt8 = 0
    private var veryHigh = OperationList<ReadyField>()
    private var high = OperationList<ReadyField>()
    private var low = OperationList<ReadyField>()
    private var veryLow = OperationList<ReadyField>()

    @inline(__always) var isEmpty: Bool { occupied == 0 }

    @inline(__always)
    mutating func append(_ operation: Operation) {
        let level = operation.loadState().level
        operation.place = Operation.Place(readyAt: level)
        occupied |= 1 << level
        withList(level) { $0.append(operation) }
    }

    @inline(__always)
    mutating func remove(_ operation: Operation) {
        let level = operation.place.level
        if withList(
            level,
            {
                $0.remove(operation); return $0.isEmpty
            })
        {
            occupied &= ~(1 << level)
        }
    }

    /// The one that `popFirst` would return.
    var first: Operation? {
        // Safety: the members are alive; the queue's lock is held.
        switch occupied.trailingZeroBitCount {
        case 0: unsafe veryHigh.first?.takeUnretainedValue()
        case 1: unsafe high.first?.takeUnretainedValue()
        case 2: unsafe normal.first?.takeUnretainedValue()
        case 3: unsafe low.first?.takeUnretainedValue()
        default: unsafe veryLow.first?.takeUnretainedValue()
        }
    }

    @inline(__always)
    mutating func popFirst() -> Unmanaged<Operation>? {
        guard occupied != 0 else { return nil }
        let level = UInt8(truncatingIfNeeded: occupied.trailingZeroBitCount)
        let (operation, next) = unsafe withList(level) { unsafe ($0.popFirst(), $0.first) }
        if let next = unsafe next { unsafe prefetch(next) } else { occupied &= ~(1 << level) }
        return unsafe operation
    }
}

extension ReadyLists {
    /// The calling thread probably takes it next, and it is in the cache of the one that has added it: 120 bytes, in three lines at most.
    @inline(__always)
    private func prefetch(_ operation: Unmanaged<Operation>) {
        let address = unsafe operation.toOpaque()
        for offset in [0, 64, 112] { unsafe cplatform_prefetch(address + offset) }
    }

    @inline(__always)
    private mutating func withList<Result>(_ level: UInt8, _ body: (inout OperationList<ReadyField>) -> Result) -> Result {
        switch level {
        case 0: body(&veryHigh)
        case 1: body(&high)
        case 3: body(&low)
        case 4: body(&veryLow)
        default: body(&normal)
        }
    }
}
