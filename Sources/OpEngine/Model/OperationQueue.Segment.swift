import CPlatform

extension OperationQueue {
    /// The operations between two barriers, with the list of those that are ready. A barrier forms a segment of its own.
    ///
    /// The ready list is sorted by priority, and by arrival within a priority. It runs through the operations themselves and does not
    /// retain them. Adding and taking are O(1).
    @safe struct Segment {
        // Safety: the caller holds the queue's lock, and the members are alive. See `OperationLinks`.

        // Fields that change with every operation come first. See `State`.

        // Safety: the caller holds the queue's lock, and the members are alive.
        private(set) nonisolated(unsafe) var firstReady: Unmanaged<Operation>?
        /// For each priority level, the last operation of that level on the ready list.
        // Safety: the caller holds the queue's lock, and the members are alive.
        private nonisolated(unsafe) var last = unsafe InlineArray<5, Unmanaged<Operation>?>(repeating: nil)
        /// The sequence number of the first operation after this segment. `.max` in the last segment.
        var end = UInt32.max
        /// The number of operations in this segment that have not left the queue. Not maintained while this is the only segment, because it
        /// then contains all operations.
        var unfinished: UInt32 = 0

        @inline(__always) var isLast: Bool { end == .max }

        @inline(__always)
        func has(_ operation: Operation) -> Bool { operation.number < end }

        @inline(__always) var hasReady: Bool { unsafe firstReady != nil }

        @inline(__always)
        mutating func makeReady(_ operation: Operation) {
            let member = unsafe Unmanaged.passUnretained(operation)
            let level = operation.loadState().level
            operation.queuePosition = Operation.QueuePosition(readyAt: level)
            // The preceding operation may be in another thread's cache. Unless others follow it, write to it without reading it.
            if let previous = unsafe lastOne(upTo: level) {
                let next = unsafe isBehindAll(level) ? nil : previous._withUnsafeGuaranteedRef { unsafe $0.links.next }
                unsafe operation.links = OperationLinks(previous: previous, next: next)
                unsafe previous._withUnsafeGuaranteedRef { unsafe $0.links.next = member }
            } else {
                unsafe operation.links.next = firstReady
                unsafe firstReady = member
            }
            unsafe last[Int(level)] = member
        }

        /// Adds an operation before the others of its priority.
        mutating func makeReadyInFront(_ operation: Operation) {
            let member = unsafe Unmanaged.passUnretained(operation)
            let level = operation.loadState().level
            operation.queuePosition = Operation.QueuePosition(readyAt: level)
            let higher = unsafe level == 0 ? nil : lastOne(upTo: level - 1)
            let next = unsafe higher.map { unsafe $0._withUnsafeGuaranteedRef { unsafe $0.links.next } } ?? firstReady
            unsafe operation.links = OperationLinks(previous: higher, next: next)
            if let higher = unsafe higher {
                unsafe higher._withUnsafeGuaranteedRef { unsafe $0.links.next = member }
            } else {
                unsafe firstReady = member
            }
            // It was the first of its level, and its `previous` link was not valid.
            unsafe next?._withUnsafeGuaranteedRef { unsafe $0.links.previous = member }
            if unsafe last[Int(level)] == nil { unsafe last[Int(level)] = member }
        }

        /// The last operation on the ready list with the given level or a higher priority.
        @inline(__always)
        private func lastOne(upTo level: UInt8) -> Unmanaged<Operation>? {
            var level = Int(level)
            while level >= 0 {
                if let last = unsafe last[level] { return unsafe last }
                level -= 1
            }
            return nil
        }

        /// Whether no operation on the ready list has a lower priority than `level`.
        @inline(__always)
        private func isBehindAll(_ level: UInt8) -> Bool {
            var level = Int(level) + 1
            while level < 5 {
                if unsafe last[level] != nil { return false }
                level += 1
            }
            return true
        }

        @inline(__always)
        mutating func popReady() -> Unmanaged<Operation>? {
            guard let popped = unsafe firstReady else { return nil }
            let level = unsafe Int(popped._withUnsafeGuaranteedRef(\.queuePosition.level))
            if unsafe last[level]?.toOpaque() == popped.toOpaque() { unsafe last[level] = nil }
            unsafe firstReady = popped._withUnsafeGuaranteedRef { unsafe $0.links.next }
            if let next = unsafe firstReady { unsafe prefetch(next) }
            return unsafe popped
        }

        /// Prefetches the operation that the calling thread will probably take next, because it is still in the producer's cache. Its 104
        /// bytes span at most three cache lines.
        @inline(__always)
        private func prefetch(_ operation: Unmanaged<Operation>) {
            let address = unsafe operation.toOpaque()
            for offset in [0, 64, 96] { unsafe cplatform_prefetch(address + offset) }
        }

        /// Removes any operation from the ready list.
        mutating func withdraw(_ operation: Operation) {
            let member = unsafe Unmanaged.passUnretained(operation)
            if unsafe firstReady?.toOpaque() == member.toOpaque() {
                unsafe _ = popReady()
                return
            }
            // The first operation of each level has no valid `previous` link, because additions to higher levels do not update it.
            let level = operation.queuePosition.level
            let higher = unsafe level == 0 ? nil : lastOne(upTo: level - 1)
            let isFirstOfLevel = unsafe higher?._withUnsafeGuaranteedRef { unsafe $0.links.next?.toOpaque() == member.toOpaque() } ?? false
            let links = operation.links
            let previous = unsafe isFirstOfLevel ? higher.unsafelyUnwrapped : links.previous.unsafelyUnwrapped
            unsafe previous._withUnsafeGuaranteedRef { unsafe $0.links.next = links.next }
            if unsafe last[Int(level)]?.toOpaque() != member.toOpaque() {
                unsafe links.next.unsafelyUnwrapped._withUnsafeGuaranteedRef { unsafe $0.links.previous = previous }
            } else if isFirstOfLevel {
                unsafe last[Int(level)] = nil
            } else {
                unsafe last[Int(level)] = previous
            }
        }

        /// Calls `body` for each ready operation in order. `body` must not change the list.
        func forEachReady(_ body: (Unmanaged<Operation>) -> Void) { unsafe OperationList.forEach(from: firstReady, body) }
    }
}
