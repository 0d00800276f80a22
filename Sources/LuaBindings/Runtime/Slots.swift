/// Elements at places that stay theirs until they are removed. The places come in blocks; one that has been full has no memory while it is
/// empty.
struct Slots<Element> {
    private struct Block {
        static var capacity: Int { 256 }

        private var elements: [Element?] = []
        /// Of places before the end.
        private var free: [UInt8] = []

        var isFull: Bool { free.isEmpty && elements.count == Block.capacity }
        var all: [Element] { elements.compactMap { $0 } }

        mutating func insert(_ element: Element) -> Int {
            guard let index = free.popLast() else {
                elements.append(element)
                return elements.count - 1
            }
            elements[Int(index)] = element
            return Int(index)
        }

        mutating func remove(at index: Int) -> Element? {
            let removed = elements[index]
            elements[index] = nil
            free.append(UInt8(index))
            if free.count == Block.capacity { self = Block() }
            return removed
        }
    }

    private var blocks: [Block] = []
    /// Those that are not full.
    private var open: [Int] = []
    private(set) var count = 0
    var isEmpty: Bool { count == 0 }
    /// In no order.
    var all: [Element] { blocks.flatMap(\.all) }

    /// Returns the place.
    mutating func insert(_ element: Element) -> Int {
        count += 1
        if open.isEmpty {
            open.append(blocks.count)
            blocks.append(Block())
        }
        let block = open[open.count - 1]
        let index = blocks[block].insert(element)
        if blocks[block].isFull { open.removeLast() }
        return block * Block.capacity + index
    }

    /// Returns what was there.
    mutating func remove(at place: Int) -> Element? {
        let (block, index) = place.quotientAndRemainder(dividingBy: Block.capacity)
        if blocks[block].isFull { open.append(block) }
        let removed = blocks[block].remove(at: index)
        count -= 1
        if isEmpty && blocks.count > 1 { self = Slots() }
        return removed
    }
}
