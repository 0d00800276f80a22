/// Elements at places that stay theirs until they are removed.
struct Slots<Element> {
    private var places: [Element?] = []
    private var free: [Int] = []
    var count: Int { places.count - free.count }
    var isEmpty: Bool { count == 0 }
    /// In no order.
    var all: [Element] { places.compactMap { $0 } }

    /// Returns the place.
    mutating func insert(_ element: Element) -> Int {
        if let place = free.popLast() {
            places[place] = element
            return place
        }
        places.append(element)
        return places.count - 1
    }

    mutating func remove(at place: Int) {
        places[place] = nil
        free.append(place)
        if places.count > 1024 && isEmpty { self = Slots() }
    }
}
