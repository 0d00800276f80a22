import OpEngine

extension LuaValue: CustomStringConvertible, CustomDebugStringConvertible {
    /// The value as Lua source that evaluates to it, on one line: `{1, 2, name = "x"}`. Elements 1 to n precede the other keys, which have
    /// a fixed order. A value that source cannot express is `nil` with a comment that names it. O(n log n) in all elements.
    public var description: String {
        var printer = LiteralPrinter(limit: .max)
        printer.print(self)
        return printer.text
    }

    /// Like `description`, but ends with `…` after about 1,000 characters. A larger value costs no more, apart from sorting the keys of the
    /// tables that the text shows.
    public var debugDescription: String { abbreviated(to: 1000) }

    /// Like `description`, but shortened to about `limit` characters.
    func abbreviated(to limit: Int) -> String {
        var printer = LiteralPrinter(limit: limit)
        printer.print(self)
        return printer.text
    }
}

/// Writes values as Lua source.
private struct LiteralPrinter {
    private(set) var text = ""
    private let limit: Int
    /// Whether the limit was reached, so that nothing more is written.
    private var isFull = false
    private var depth = 0
    /// A host can nest tables deeper than the stack allows. Lua's own compiler refuses more than 200 levels, too.
    private static var maximumDepth: Int { 190 }

    init(limit: Int) { self.limit = limit }

    private mutating func write(_ piece: some StringProtocol) {
        if isFull { return }
        text += piece
        if text.utf8.count > limit {
            text += "…"
            isFull = true
        }
    }

    mutating func print(_ value: LuaValue) {
        if isFull { return }
        switch value {
        case .nil: write("nil")
        case .boolean(let value): write(value ? "true" : "false")
        case .integer(.min): write("math.mininteger")  // its digits alone would be a float
        case .integer(let value): write("\(value)")
        case .number(let value): write(Self.literal(value))
        case .string(let value): printString(value.unicodeScalars)
        case .bytes(let bytes): printBytes(bytes)
        case .table(let fields): printTable(fields)
        case .operation(let operation): printNil(about: operation.displayName)
        case .queue(let queue): printNil(about: queue.displayName)
        case .object(let reference): printNil(about: "\(type(of: reference.object))")
        case .other(let type): printNil(about: type)
        }
    }

    /// Replaces `]`, because the name must not end the comment.
    private mutating func printNil(about name: String) { write("nil --[[\(name.split(separator: "]").joined(separator: "|"))]]") }

    private static func literal(_ value: Double) -> String {
        if value.isNaN { return "0/0" }
        if value.isInfinite { return value < 0 ? "-math.huge" : "math.huge" }
        return "\(value)"
    }

    private mutating func printString(_ scalars: String.UnicodeScalarView) {
        var literal = "\""
        for scalar in scalars {
            if literal.utf8.count > limit - text.utf8.count { break }
            if scalar.value >= 0x20, scalar.value != 0x7f, scalar != "\"", scalar != "\\" {
                literal.unicodeScalars.append(scalar)
            } else {
                literal += Self.escape(UInt8(scalar.value))
            }
        }
        write(literal + "\"")
    }

    private mutating func printBytes(_ bytes: [UInt8]) {
        var literal = "\""
        for byte in bytes {
            if literal.utf8.count > limit - text.utf8.count { break }
            if (0x20..<0x7f).contains(byte), byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
                literal.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                literal += Self.escape(byte)
            }
        }
        write(literal + "\"")
    }

    private static func escape(_ byte: UInt8) -> String {
        switch byte {
        case UInt8(ascii: "\n"): "\\n"
        case UInt8(ascii: "\t"): "\\t"
        case UInt8(ascii: "\r"): "\\r"
        case UInt8(ascii: "\""): "\\\""
        case UInt8(ascii: "\\"): "\\\\"
        default: "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }

    private mutating func printTable(_ fields: [LuaValue: LuaValue]) {
        if depth == Self.maximumDepth { return printNil(about: "a table, too deep to print") }
        depth += 1
        defer { depth -= 1 }
        write("{")
        var written = 0
        while let element = fields[.integer(written + 1)], !isFull {
            if written > 0 { write(", ") }
            print(element)
            written += 1
        }
        let others = isFull ? [] : fields.filter { field in !field.key.isElement(ofFirst: written) }.sorted(by: Self.precedes)
        for (key, value) in others where !isFull {
            if written > 0 { write(", ") }
            printKey(key)
            write(" = ")
            print(value)
            written += 1
        }
        write("}")
    }

    private mutating func printKey(_ key: LuaValue) {
        if case .string(let name) = key, Self.isName(name) { return write(name) }
        write("[")
        print(key)
        write("]")
    }

    /// Numbers precede strings, and strings precede other keys.
    private static func precedes(_ left: (key: LuaValue, value: LuaValue), _ right: (key: LuaValue, value: LuaValue)) -> Bool {
        switch (left.key, right.key) {
        case (.string(let left), .string(let right)): return left < right
        case (.string, _): return right.key.number == nil
        case (_, .string): return left.key.number != nil
        default:
            guard let number = left.key.number else { return right.key.number == nil && "\(left.key)" < "\(right.key)" }
            return right.key.number.map { number < $0 } ?? true
        }
    }

    private static let reserved: Set<String> = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not", "or",
        "repeat", "return", "then", "true", "until", "while",
    ]

    private static func isName(_ text: String) -> Bool {
        func isLetter(_ byte: UInt8) -> Bool { (97...122).contains(byte | 0x20) || byte == UInt8(ascii: "_") }
        guard let first = text.utf8.first, isLetter(first) else { return false }
        return text.utf8.allSatisfy { isLetter($0) || (48...57).contains($0) } && !reserved.contains(text)
    }
}

extension LuaValue {
    fileprivate func isElement(ofFirst count: Int) -> Bool { if case .integer(1...max(1, count)) = self { count > 0 } else { false } }
}
