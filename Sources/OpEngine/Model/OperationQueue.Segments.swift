extension OperationQueue {
    /// The segments of a queue. Only operations of the first segment may run. The next segment begins when the first one has no operations
    /// left.
    struct Segments {
        private(set) var current = Segment()
        /// The segments behind barriers. The first `passed` of them have already become `current`.
        private var later: [Segment] = []
        private var passed = 0

        /// Counts an operation that is added at the end.
        @inline(__always)
        mutating func addOne() {
            if !current.isLast { later[later.count - 1].unfinished += 1 }
        }

        /// Adds a barrier, which waits for everything before it and makes everything added later wait for it.
        ///
        /// - Parameter count: the number of operations in the queue, including the barrier.
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

        /// The index in `later` of the segment of an operation behind a barrier. O(log n).
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

        /// Makes an operation ready that was taken and given back, before the others of its priority. It is not behind a barrier.
        mutating func makeReadyInFront(_ operation: Operation) { current.makeReadyInFront(operation) }

        // A separate function, because inlining would make the caller check before its loop whether the array must be copied.
        @inline(never)
        private mutating func makeReadyBehindBarriers(_ operation: Operation) { later[index(of: operation)].makeReady(operation) }

        /// Removes a ready operation from its ready list.
        mutating func withdraw(_ operation: Operation) {
            if isCurrent(operation) { current.withdraw(operation) } else { later[index(of: operation)].withdraw(operation) }
        }

        /// Whether the operation is not behind a barrier.
        @inline(__always) func isCurrent(_ operation: Operation) -> Bool { current.has(operation) }

        @inline(__always)
        mutating func popReady() -> Unmanaged<Operation>? { unsafe current.popReady() }

        /// Calls `body` for each operation that is ready apart from barriers, in no particular order.
        func forEachReady(_ body: (Unmanaged<Operation>) -> Void) {
            unsafe current.forEachReady(body)
            for segment in later[passed...] { unsafe segment.forEachReady(body) }
        }

        /// Counts an operation that leaves the queue.
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

        /// Adapts the segments to new sequence numbers, which will start at 0. `numbers` contains the current ones in ascending order.
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
