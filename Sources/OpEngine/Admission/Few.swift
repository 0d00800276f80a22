/// Values in the order of their addition. Most often there is one, which is stored without memory of its own.
struct Few<Element> {
    private var first: Element?
    private var others: [Element] = []

    init() {}

    init(_ elements: some Sequence<Element>) { for element in elements { append(element) } }

    /// The value, if there is only one.
    var only: Element? { others.isEmpty ? first : nil }

    var all: [Element] { (first.map { [$0] } ?? []) + others }

    mutating func append(_ element: Element) {
        if first == nil { first = element } else { others.append(element) }
    }

    @inline(__always)
    func forEach(_ body: (Element) -> Void) {
        if let first { body(first) }
        if !others.isEmpty { others.forEach(body) }
    }

    @inline(__always)
    func first(where fits: (Element) -> Bool) -> Element? {
        if let first, fits(first) { return first }
        return others.first(where: fits)
    }

    mutating func removeFirst(where fits: (Element) -> Bool) {
        if let first, fits(first) {
            self.first = others.isEmpty ? nil : others.removeFirst()
        } else {
            others.removeFirst(where: fits)
        }
    }
}
