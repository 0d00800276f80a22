import Glibc

/// The names of the options of a function: an enumeration with up to 24 cases and no associated values.
protocol OptionKey: CaseIterable, Equatable, RawRepresentable<String>, Sendable where AllCases == [Self] {
    /// Made once: `OptionNames()`.
    static var names: OptionNames<Self> { get }
}

extension OptionKey {
    /// The place among the cases.
    @inline(__always)
    fileprivate var position: Int {
        // Safety: Swift's ABI numbers the cases of an enumeration without associated values in their order. `OptionNames` checks it.
        MemoryLayout<Self>.size == 0 ? 0 : unsafe Int(unsafeBitCast(self, to: UInt8.self))
    }
}

/// Finds the options of a function by their names.
///
/// Comparing the first eight bytes of names first has halved the time of a call with five options.
struct OptionNames<Key: OptionKey>: Sendable {
    let keys = Key.allCases
    private let names = Key.allCases.map { Array($0.rawValue.utf8) }
    private let beginnings = Key.allCases.map { key in
        var name = key.rawValue
        return name.withUTF8 { unsafe Self.beginning(of: UnsafeRawBufferPointer($0)) }
    }

    init() {
        precondition(keys.count <= 24 && keys.indices.allSatisfy { keys[$0].position == $0 })
    }

    /// The place of a name among the cases; nil for an unknown name.
    func position(of name: UnsafeRawBufferPointer) -> Int? {
        let beginning = unsafe Self.beginning(of: name)
        for position in beginnings.indices where beginnings[position] == beginning && names[position].count == name.count {
            if unsafe name.count <= 8 || name.elementsEqual(names[position]) { return position }
        }
        return nil
    }

    private static func beginning(of name: UnsafeRawBufferPointer) -> UInt64 {
        var beginning: UInt64 = 0
        // Safety: copies no more bytes than the name and the number have.
        if let bytes = name.baseAddress { unsafe memcpy(&beginning, bytes, min(name.count, 8)) }
        return beginning
    }
}

/// The stack slots of the options that a call was given. Allocates no memory, because scripts make many operations with options.
struct GivenOptions<Key: OptionKey> {
    /// For each case of `Key`; 0 if the option was not given.
    private var slots = InlineArray<24, Int32>(repeating: 0)

    @inline(__always)
    subscript(_ key: Key) -> Int32? {
        let slot = slots[key.position]
        return slot != 0 ? slot : nil
    }

    mutating func add(_ key: Key, at slot: Int32) { slots[key.position] = slot }
}
