extension OperationQueue {
    /// The operations between two barriers. A barrier is a segment of its own.
    struct Segment {
        /// Operations in it that have not left the queue.
        var unfinished = 0
        /// Those that may run when their turn has come.
        var ready = ReadyLists()
    }

    /// A queue's segments: only the first may run; the next begins when it has no operation left.
    struct Segments {
        /// The number of `current`; an operation remembers the number of its segment.
        private var currentNumber: UInt32 = 0
        /// Those behind barriers; the first `passed` of them have had their turn.
        private var later: [Segment] = []
        private var passed = 0
        private(set) var current = Segment()

        /// An operation joins at the end.
        @inline(__always)
        mutating func add(_ operation: Operation) {
            if later.isEmpty {
                operation.segment = currentNumber
                current.unfinished += 1
            } else {
                addToLast(operation)
            }
        }

        @inline(never)
        private mutating func addToLast(_ operation: Operation) {
            operation.segment = currentNumber &+ UInt32(later.count - passed)
            later[later.count - 1].unfinished += 1
        }

        /// A barrier joins: behind everything before it, and everything after joins behind it.
        mutating func addBarrier(_ operation: Operation) {
            later.append(Segment())
            addToLast(operation)
            later.append(Segment())
            advance()
        }

        @inline(__always)
        mutating func makeReady(_ operation: Operation) {
            if operation.segment == currentNumber {
                current.ready.append(operation)
            } else {
                later[passed + Int(operation.segment &- currentNumber) - 1].ready.append(operation)
            }
        }

        /// Takes a ready operation off its list.
        mutating func withdraw(_ operation: Operation) {
            if operation.segment == currentNumber {
                current.ready.remove(operation)
            } else {
                later[passed + Int(operation.segment &- currentNumber) - 1].ready.remove(operation)
            }
        }

        /// Whether no barrier is before it.
        func isCurrent(_ operation: Operation) -> Bool { operation.segment == currentNumber }

        @inline(__always)
        mutating func popReady() -> Unmanaged<Operation>? { unsafe current.ready.popFirst() }

        /// An operation leaves the queue.
        @inline(__always)
        mutating func remove(_ operation: Operation) {
            if operation.segment == currentNumber {
                current.unfinished -= 1
                if !later.isEmpty { advance() }
            } else {
                later[passed + Int(operation.segment &- currentNumber) - 1].unfinished -= 1
            }
        }

        @inline(never)
        private mutating func advance() {
            while current.unfinished == 0 && passed < later.count {
                current = later[passed]
                passed += 1
                currentNumber &+= 1
            }
            if passed == later.count {
                later.removeAll(keepingCapacity: true)
                passed = 0
            } else if passed > 32 && passed * 2 > later.count {
                later.removeFirst(passed)
                passed = 0
            }
        }
    }
}
