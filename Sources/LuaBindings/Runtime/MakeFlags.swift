/// The variable `MAKEFLAGS`, by which GNU make tells programs of its jobserver.
package struct MakeFlags {
    /// How programs find the jobserver.
    enum Address: Equatable {
        case pipe(reading: Int32, writing: Int32)
        case fifo(String)
    }

    /// The address of a jobserver; nil without one.
    let address: Address?
    /// The number of places, which `-j` states.
    package let placeCount: Int?
    /// The other words, and the definitions of variables after `--`, which may contain any text.
    private let others: [Substring]
    private let definitions: Substring

    /// Whether the variable names a jobserver.
    package var hasJobserver: Bool { address != nil }

    package init(_ text: String) {
        let end = text.firstRange(of: " -- ")?.lowerBound ?? text.endIndex
        definitions = text[end...]
        var (address, placeCount, others): (Address?, Int?, [Substring]) = (nil, nil, [])
        for word in text[..<end].split(separator: " ") {
            if word.hasPrefix("--jobserver-auth=") || word.hasPrefix("--jobserver-fds=") {
                address = word.firstIndex(of: "=").flatMap { Self.address(word[word.index(after: $0)...]) }
            } else if word.hasPrefix("-j") {
                placeCount = Int(word.dropFirst(2))
            } else if !word.hasPrefix("--jobserver-style=") {
                others.append(word)
            }
        }
        (self.address, self.placeCount, self.others) = (address, placeCount, others)
    }

    private static func address(_ text: Substring) -> Address? {
        if text.hasPrefix("fifo:") { return .fifo(String(text.dropFirst("fifo:".count))) }
        let numbers = text.split(separator: ",").compactMap { Int32($0) }
        return numbers.count == 2 ? .pipe(reading: numbers[0], writing: numbers[1]) : nil
    }

    /// The variable without a jobserver, and without `-j`.
    package var withoutJobserver: String { others.joined(separator: " ") + definitions }

    /// The variable with another jobserver.
    func with(_ address: Address, placeCount: Int?) -> String {
        let value =
            switch address {
            case .pipe(let reading, let writing): "\(reading),\(writing)"
            case .fifo(let path): "fifo:\(path)"
            }
        // Without letters of options, the text begins with a space.
        return others.joined(separator: " ") + " -j\(placeCount.map { "\($0)" } ?? "") --jobserver-auth=\(value)\(definitions)"
    }
}
