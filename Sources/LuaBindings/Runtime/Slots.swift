/// Elements at places that stay theirs until they are removed.
struct Slots<Element> {
    private enum Place {
        case taken(Element)
        /// The next one that is free.
        case free(Int?)
    }

    private var places: [Place] = []
    private var firstFree: Int?
    private(set) var count = 0
    var isEmpty: Bool { count == 0 }
    /// In no order.
    var all: [Element] {
        places.compactMap { if case .taken(let element) = $0 { element } else { nil } }
    }

    /// Returns the place.
    mutating func insert(_ element: Element) -> Int {
        count += 1
        guard let place = firstFree, case .free(let next) = places[place] else {
            places.append(.taken(element))
            return places.count - 1
        }
        firstFree = next
        places[place] = .taken(element)
        return place
    }

    mutating func remove(at place: Int) {
        count -= 1
        places[place] = .free(firstFree)
        firstFree = place
        if places.count > 1024 && isEmpty { self = Slots() }
    }
}
