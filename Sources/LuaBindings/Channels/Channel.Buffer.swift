import CLua
import OpEngine

extension Channel {
    /// One message: the values of one call.
    @safe struct Item {
        /// The values of a script; empty if the host has sent the message. The holder of the item owns the parcel's contents.
        var parcel = unsafe clua_parcel()
        /// The values of the host; nil if a script has sent the message.
        var values: [LuaValue]?
    }

    /// A thread or a task that waits for a channel.
    final class Waiter: Sendable {
        enum Purpose { case toSend, toReceive }

        let purpose: Purpose
        /// The operation whose body waits, if there is one.
        let operation: Operation?
        let wake: @Sendable () -> Void
        /// Whether the channel has the waiter and will wake it.
        // Safety: used only with the lock of the channel held.
        @safe nonisolated(unsafe) fileprivate var isListed = false

        init(_ purpose: Purpose, _ operation: Operation?, wake: @escaping @Sendable () -> Void) {
            self.purpose = purpose
            self.operation = operation
            self.wake = wake
        }
    }

    /// The messages that wait for a receiver, in a ring, and the waiters.
    struct Buffer {
        private var items: ContiguousArray<Item> = []
        private var first = 0
        private(set) var count = 0
        private let capacity: Int
        var isClosed = false
        /// The waiters, in the order in which they began to wait.
        private(set) var waiters: [Waiter] = []

        init(capacity: Int) { self.capacity = capacity }

        // MARK: messages

        var isFull: Bool { count == capacity }

        /// Appends an item. There must be room for it.
        mutating func append(_ item: Item) {
            if count == items.count { resize(to: Swift.min(capacity, Swift.max(16, 2 * count))) }
            let end = first + count
            items[end < items.count ? end : end - items.count] = item
            count += 1
        }

        mutating func takeFirst() -> Item? {
            guard count > 0 else { return nil }
            var item = Item()
            swap(&item, &items[first])
            first = first + 1 == items.count ? 0 : first + 1
            count -= 1
            // So much room may never be needed again.
            if items.count > 1024, 4 * count <= items.count { resize(to: 2 * count) }
            return item
        }

        mutating func removeAll() -> [Item] {
            var all: [Item] = []
            while let item = takeFirst() { all.append(item) }
            return all
        }

        /// Moves the messages to a ring with so much room.
        private mutating func resize(to room: Int) {
            var moved: ContiguousArray<Item> = []
            moved.reserveCapacity(room)
            let end = Swift.min(first + count, items.count)
            moved += items[first..<end]
            moved += items[..<(first + count - end)]
            moved += repeatElement(Item(), count: room - count)
            (items, first) = (moved, 0)
        }

        // MARK: waiters

        /// Whether a waiter with this purpose need not wait.
        func isReady(for purpose: Waiter.Purpose) -> Bool { isClosed || (purpose == .toSend ? !isFull : count > 0) }

        /// Returns whether the waiter need not wait. Otherwise puts it on the list.
        mutating func isReady(for waiter: Waiter) -> Bool {
            if isReady(for: waiter.purpose) { return true }
            if !waiter.isListed {
                waiter.isListed = true
                waiters.append(waiter)
            }
            return false
        }

        /// Takes the first waiter with this purpose off the list. The caller wakes it, outside of the lock.
        @inline(__always)
        mutating func takeWaiter(_ purpose: Waiter.Purpose) -> Waiter? {
            if waiters.isEmpty { return nil }
            guard let index = waiters.firstIndex(where: { $0.purpose == purpose }) else { return nil }
            waiters[index].isListed = false
            return waiters.remove(at: index)
        }

        mutating func takeAllWaiters() -> [Waiter] {
            for waiter in waiters { waiter.isListed = false }
            defer { waiters = [] }
            return waiters
        }

        mutating func remove(_ waiter: Waiter) {
            guard waiter.isListed else { return }
            waiter.isListed = false
            waiters.removeAll { $0 === waiter }
        }
    }
}
