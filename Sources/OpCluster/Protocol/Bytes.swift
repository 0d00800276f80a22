/// Writes the parts of a message.
package struct ByteWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func byte(_ value: UInt8) { bytes.append(value) }

    /// A number in groups of seven bits, the lowest first.
    package mutating func number(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    package mutating func number(_ value: Int) { number(UInt64(value)) }

    package mutating func seconds(_ value: Double) { fixed(value.bitPattern) }

    private mutating func fixed(_ value: UInt64) { for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: value >> (8 * shift))) } }

    /// The number of bytes, and then the bytes.
    package mutating func counted(_ value: some Collection<UInt8>) {
        number(value.count)
        bytes.append(contentsOf: value)
    }

    package mutating func text(_ value: String) { counted(value.utf8) }

    package mutating func raw(_ value: some Collection<UInt8>) { bytes.append(contentsOf: value) }

    package mutating func list<Element>(_ elements: [Element], _ write: (inout ByteWriter, Element) -> Void) {
        number(elements.count)
        for element in elements { write(&self, element) }
    }
}

/// A message is not well-formed. The receiver ignores it.
package struct MalformedMessage: Error {}

/// Reads the parts of a message. The message may be hostile.
package struct ByteReader {
    private var rest: ArraySlice<UInt8>

    package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    package var isAtEnd: Bool { rest.isEmpty }

    package mutating func byte() throws(MalformedMessage) -> UInt8 {
        guard let byte = rest.popFirst() else { throw MalformedMessage() }
        return byte
    }

    package mutating func number() throws(MalformedMessage) -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: 0, to: 64, by: 7) {
            let byte = try byte()
            value |= UInt64(byte & 0x7f) << UInt64(shift)
            if byte < 0x80 { return value }
        }
        throw MalformedMessage()
    }

    /// A number that fits an `Int`.
    package mutating func count() throws(MalformedMessage) -> Int {
        guard let value = Int(exactly: try number()) else { throw MalformedMessage() }
        return value
    }

    package mutating func seconds() throws(MalformedMessage) -> Double {
        var value: UInt64 = 0
        for shift in 0..<8 { value |= UInt64(try byte()) << UInt64(8 * shift) }
        let seconds = Double(bitPattern: value)
        // NaN, infinity, or a time that no clock shows would spoil every sum.
        guard seconds.isFinite, seconds.magnitude < 1e15 else { throw MalformedMessage() }
        return seconds
    }

    package mutating func counted() throws(MalformedMessage) -> ArraySlice<UInt8> { try raw(count()) }

    package mutating func raw(_ count: Int) throws(MalformedMessage) -> ArraySlice<UInt8> {
        guard count <= rest.count else { throw MalformedMessage() }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    /// The rest of the bytes.
    package mutating func remainder() throws(MalformedMessage) -> ArraySlice<UInt8> { try raw(rest.count) }

    package mutating func text() throws(MalformedMessage) -> String { String(decoding: try counted(), as: UTF8.self) }

    package mutating func list<Element>(
        _ read: (inout ByteReader) throws(MalformedMessage) -> Element
    ) throws(MalformedMessage) -> [Element] {
        let count = try count()
        // Each element takes at least one byte, so a count that the message cannot hold is refused before anything is reserved.
        guard count <= rest.count else { throw MalformedMessage() }
        var elements: [Element] = []
        elements.reserveCapacity(count)
        for _ in 0..<count { elements.append(try read(&self)) }
        return elements
    }
}
