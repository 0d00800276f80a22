/// An array that stores a single element without an allocation. Nearly all operations have one body and one result.
enum SmallArray<Element>: RandomAccessCollection, MutableCollection {
    case empty
    case one(Element)
    case several([Element])

    init(_ elements: [Element]) { self = elements.count > 1 ? .several(elements) : elements.first.map { .one($0) } ?? .empty }

    init(repeating element: Element, count: Int) {
        self = count == 0 ? .empty : count == 1 ? .one(element) : .several(Array(repeating: element, count: count))
    }

    var startIndex: Int { 0 }
    var endIndex: Int {
        switch self {
        case .empty: 0
        case .one: 1
        case .several(let elements): elements.count
        }
    }

    subscript(index: Int) -> Element {
        get {
            switch self {
            case .one(let element) where index == 0: return element
            case .several(let elements): return elements[index]
            default: fatalError("index out of range")
            }
        }
        _modify {
            // Moved out, so that changing an element copies nothing.
            switch exchange(&self, with: .empty) {
            case .one(var element) where index == 0:
                defer { self = .one(element) }
                yield &element
            case .several(var elements):
                defer { self = .several(elements) }
                yield &elements[index]
            default: fatalError("index out of range")
            }
        }
    }

    mutating func append(_ element: Element) {
        if case .empty = self { return self = .one(element) }
        switch consume self {
        case .empty: self = .one(element)
        case .one(let first): self = .several([first, element])
        case .several(var elements):
            self = .empty
            elements.append(element)
            self = .several(elements)
        }
    }
}
