/// Texts that operations share. An operation has the index of its text.
struct TextTable {
    private(set) var all: [JSONText] = []
    private var indices: [String: Int32] = [:]

    subscript(index: Int32) -> JSONText { all[Int(index)] }

    /// The index of a text, which is added if `index(of:)` has not added it before.
    mutating func index(of text: String) -> Int32 {
        if let index = indices[text] { return index }
        let index = append(JSONText(text))
        indices[text] = index
        return index
    }

    /// Adds a text, and returns its index.
    mutating func append(_ text: JSONText) -> Int32 {
        all.append(text)
        return Int32(all.count - 1)
    }

    /// Moves the texts of a table that are still used to a new one. `index(of:)` moves a text when it is first asked for.
    struct Move {
        private let former: TextTable
        private var moved: [Int32]
        private(set) var table = TextTable()

        init(_ former: TextTable) {
            self.former = former
            moved = [Int32](repeating: -1, count: former.all.count)
        }

        /// The index that a text of the former table has in the new one.
        mutating func index(of former: Int32) -> Int32 {
            if moved[Int(former)] < 0 { moved[Int(former)] = table.append(self.former[former]) }
            return moved[Int(former)]
        }
    }
}
