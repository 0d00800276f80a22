extension OperationQueue {
    /// A queue's segments: only the first may run; the next begins when it has no operation left.
    struct Segments {
        private(set) var current = Segment()
        /// Those behind barriers; the first `passed` of them have had their turn.
        private var later: [Segment] = []
        private var passed = 0

        /// An operation joins, behind everything.
        @inline(__always)
        mutating func addOne() {
            if !current.isLast { later[later.count - 1].unfinished += 1 }
        }

        /// A barrier joins: behind everything before it, and everything after joins behind it.
        ///
        /// - Parameter count: how many are in the queue, it included.
        mutating func addBarrier(_ operation: Operation, count: Int) {
            if current.isLast { current.unfinished = UInt32(count - 1) }
            begin(at: operation.number)
            addOne()
            begin(at: operation.number + 1)
            advance()
        }

        private mutating func begin(at number: UInt32) {
            if later.isEmpty { current.end = number } else { later[later.count - 1].end = number }
            later.append(Segment())
        }

        /// Where one is that is behind a barrier.
        private func index(of operation: Operation) -> Int {
            var (first, last) = (passed, later.count - 1)
            while first < last {
                let middle = (first + last) / 2
                if later[middle].has(operation) { last = middle } else { first = middle + 1 }
            }
            return first
        }

        @inline(__always)
        mutating func makeReady(_ operation: Operation) {
            if isCurrent(operation) { current.makeReady(operation) } else { makeReadyBehindBarriers(operation) }
        }

        // A function of its own, else the compiler looks in front of a loop whether the array has to be copied.
        @inline(never)
        private mutating func makeReadyBehindBarriers(_ operation: Operation) { later[index(of: operation)].makeReady(operation) }

        /// Takes a ready operation off its list.
        mutating func withdraw(_ operation: Operation) {
            if isCurrent(operation) { current.withdraw(operation) } else { later[index(of: operation)].withdraw(operation) }
        }

        /// Whether no barrier is before it.
        @inline(__always) func isCurrent(_ operation: Operation) -> Bool { current.has(operation) }

        @inline(__always)
        mutating func popReady() -> Unmanaged<Operation>? { unsafe current.popReady() }

        /// Those that are ready, or would be without barriers, in no order.
        func forEachReady(_ body: (Unmanaged<Operation>) -> Void) {
            unsafe current.forEachReady(body)
            for segment in later[passed...] { unsafe segment.forEachReady(body) }
        }

        /// An operation leaves the queue.
        @inline(__always)
        mutating func remove(_ operation: Operation) {
            if !current.isLast { removeBetweenBarriers(operation) }
        }

        @inline(never)
        private mutating func removeBetweenBarriers(_ operation: Operation) {
            if isCurrent(operation) {
                current.unfinished -= 1
                advance()
            } else {
                later[index(of: operation)].unfinished -= 1
            }
        }

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

        /// The operations of the queue are about to be numbered anew, from 0: `numbers` has those that they have, in order.
        mutating func renumber(from numbers: [UInt32]) {
            var before = 0
            func renumber(_ segment: inout Segment) {
                if segment.isLast { return }
                while before < numbers.count && numbers[before] < segment.end { before += 1 }
                segment.end = UInt32(before)
            }
            renumber(&current)
            for index in passed..<later.count { renumber(&later[index]) }
        }
    }
}
