extension OperationQueue {
    /// The operations between two barriers. A barrier is a segment of its own.
    struct Segment {
        /// Operations remember it.
        let number: UInt32
        /// Operations in it that have not left the queue.
        var unfinished: UInt32 = 0
        /// Those that may run when their turn has come.
        var ready = ReadyLists()
    }

    /// A queue's segments: only the first may run; the next begins when it has no operation left.
    struct Segments {
        private(set) var current = Segment(number: 0)
        /// Those behind barriers, numbered onwards; the first `passed` of them have had their turn.
        private var later: [Segment] = []
        private var passed = 0

        /// An operation joins at the end.
        @inline(__always)
        mutating func add(_ operation: Operation) {
            if later.isEmpty {
                operation.segment = current.number
                current.unfinished += 1
            } else {
                addToLast(operation)
            }
        }

        @inline(never)
        private mutating func addToLast(_ operation: Operation) {
            let last = later.count - 1
            operation.segment = later[last].number
            later[last].unfinished += 1
        }

        /// A barrier joins: behind everything before it, and everything after joins behind it.
        mutating func addBarrier(_ operation: Operation) {
            begin()
            addToLast(operation)
            begin()
            advance()
        }

        private mutating func begin() { later.append(Segment(number: (later.last?.number ?? current.number) &+ 1)) }

        /// Where one is that is behind a barrier.
        private func place(of operation: Operation) -> Int { passed + Int(operation.segment &- current.number) - 1 }

        @inline(__always)
        mutating func makeReady(_ operation: Operation) {
            if isCurrent(operation) {
                current.ready.append(operation)
            } else {
                later[place(of: operation)].ready.append(operation)
            }
        }

        /// Takes a ready operation off its list.
        mutating func withdraw(_ operation: Operation) {
            if isCurrent(operation) {
                current.ready.remove(operation)
            } else {
                later[place(of: operation)].ready.remove(operation)
            }
        }

        /// Whether no barrier is before it.
        @inline(__always) func isCurrent(_ operation: Operation) -> Bool { operation.segment == current.number }

        @inline(__always)
        mutating func popReady() -> Unmanaged<Operation>? { unsafe current.ready.popFirst() }

        /// An operation leaves the queue.
        @inline(__always)
        mutating func remove(_ operation: Operation) {
            if isCurrent(operation) {
                current.unfinished -= 1
                if !later.isEmpty { advance() }
            } else {
                later[place(of: operation)].unfinished -= 1
            }
        }

        @inline(never)
        private mutating func advance() {
            while current.unfinished == 0 && passed < later.count {
                current = later[passed]
                passed += 1
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
