/// The observers of an object, in the order in which they began to observe. Adding and removing take constant time on average.
struct RegistrationList: Sequence {
    /// Nil in place of an observer that was removed.
    private var slots: [Registration?] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ registration: Registration) {
        registration.slot = slots.count
        slots.append(registration)
        count += 1
    }

    /// Returns nil if the observer is not in the list.
    mutating func remove(_ registration: Registration) -> Registration? {
        guard slots.indices.contains(registration.slot), slots[registration.slot] === registration else { return nil }
        slots[registration.slot] = nil
        count -= 1
        if slots.count > 2 * count + 16 { removeGaps() }
        return registration
    }

    private mutating func removeGaps() {
        slots.removeAll { $0 == nil }
        for (index, registration) in slots.enumerated() { registration?.slot = index }
    }

    func makeIterator() -> some IteratorProtocol<Registration> { slots.lazy.compactMap { $0 }.makeIterator() }
}
