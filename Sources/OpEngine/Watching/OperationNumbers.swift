/// The numbers of the operations at some addresses: 0, 1, 2, … in the order in which the addresses are looked up first.
///
/// Operations that were made one after the other are often neighbours in memory. So the numbers for a page of memory are stored together,
/// and the caller keeps the page of its last look-up: a look-up in the same page needs no hashing, and touches the same cache lines.
struct OperationNumbers {
    /// A page of memory, and the index in `numbers` at which its numbers begin.
    struct Page {
        fileprivate let index: UInt64
        fileprivate let start: Int

        static let none = Page(index: .max, start: 0)
    }

    private static let pageSize: UInt64 = 4096
    /// Swift's objects are at multiples of this.
    private static let alignment: UInt64 = 16

    private var pages: [UInt64: Page] = [:]
    /// The number of the operation at each place of a page; -1 if there was none.
    private var numbers: [Int32] = []
    private var count: Int32 = 0

    /// - Parameter page: the page of the last look-up. Becomes that of this one.
    mutating func number(of address: UInt64, _ page: inout Page) -> Int {
        let index = address / Self.pageSize
        if index != page.index { page = self.page(index) }
        let place = page.start + Int(address % Self.pageSize / Self.alignment)
        if numbers[place] < 0 {
            numbers[place] = count
            count += 1
        }
        return Int(numbers[place])
    }

    @inline(never)
    private mutating func page(_ index: UInt64) -> Page {
        if let page = pages[index] { return page }
        let page = Page(index: index, start: numbers.count)
        pages[index] = page
        numbers.append(contentsOf: repeatElement(-1, count: Int(Self.pageSize / Self.alignment)))
        return page
    }
}
