/// An array whose first element needs no memory of its own: nearly all operations have one body, one result and run in one state.
struct SmallArray<Element>: RandomAccessCollection, MutableCollection, ExpressibleByArrayLiteral {
    private var first: Element?
    private var others: [Element] = []

    init() {}

    init(arrayLiteral elements: Element...) {
        for element in elements { append(element) }
    }

    init(repeating element: Element, count: Int) {
        if count > 0 { first = element }
        if count > 1 { others = Array(repeating: element, count: count - 1) }
    }

    var startIndex: Int { 0 }
    var endIndex: Int { first == nil ? 0 : others.count + 1 }

    subscript(index: Int) -> Element {
        get {
            if index > 0 { return others[index - 1] }
            guard let first else { fatalError("index out of range") }
            return first
        }
        set {
            precondition(first != nil, "index out of range")
            if index > 0 { others[index - 1] = newValue } else { first = newValue }
        }
    }

    mutating func append(_ element: Element) {
        if first == nil { first = element } else { others.append(element) }
    }

    mutating func remove(at index: Int) {
        if index > 0 {
            others.remove(at: index - 1)
        } else {
            first = others.isEmpty ? nil : others.removeFirst()
        }
    }

    /// Where the one and only `object` is.
    func firstIndex(of object: Element) -> Int? where Element: AnyObject { firstIndex { $0 === object } }
}
