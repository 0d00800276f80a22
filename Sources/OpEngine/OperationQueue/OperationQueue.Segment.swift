import CPlatform

extension OperationQueue {
    /// The operations between two barriers, and the list of those that are ready. A barrier is a segment of its own.
    ///
    /// The list has the order in which they are to run: by priority, and those of one priority as they came. It does not own its members,
    /// which are linked by their own links; constant time.
    @safe struct Segment {
        // Safety: the queue's lock is held, and the members are alive; see `OperationLinks`.

        // What changes with each operation comes first; see `State`.

        // Safety: see above.
        private(set) nonisolated(unsafe) var firstReady: Unmanaged<Operation>?
        /// The last one of each priority that is on the list, by its level.
        // Safety: see above.
        private nonisolated(unsafe) var last = unsafe InlineArray<5, Unmanaged<Operation>?>(repeating: nil)
        /// Operations with this number and greater ones belong to a later segment. `.max` in the last one.
        var end = UInt32.max
        /// Operations in it that have not left the queue. Not kept where it is the only one: then it has all.
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
            // The one before, which another thread may have in its cache, is only written.
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

        /// Of those whose priority is that of `level` or higher.
        @inline(__always)
        private func lastOne(upTo level: UInt8) -> Unmanaged<Operation>? {
            var level = Int(level)
            while level >= 0 {
                if let last = unsafe last[level] { return unsafe last }
                level -= 1
            }
            return nil
        }

        /// Whether none has a lower priority than that of `level`.
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

        /// The calling thread probably takes it next, and it is in the cache of the one that has added it: 104 bytes, in three lines at most.
        @inline(__always)
        private func prefetch(_ operation: Unmanaged<Operation>) {
            let address = unsafe operation.toOpaque()
            for offset in [0, 64, 96] { unsafe cplatform_prefetch(address + offset) }
        }

        /// Takes any one off the list.
        mutating func withdraw(_ operation: Operation) {
            let member = unsafe Unmanaged.passUnretained(operation)
            if unsafe firstReady?.toOpaque() == member.toOpaque() {
                unsafe _ = popReady()
                return
            }
            // The link to the previous one is not kept up to date where that has another priority.
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

        /// Those that are ready, in order. `body` must not change the list.
        func forEachReady(_ body: (Unmanaged<Operation>) -> Void) { unsafe OperationList.forEach(from: firstReady, body) }
    }
}
