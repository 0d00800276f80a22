import Glibc

/// The names of the options of a function.
protocol OptionKey: CaseIterable, Equatable, RawRepresentable<String>, Sendable where AllCases == [Self] {
    /// Made once: `OptionNames()`.
    static var names: OptionNames<Self> { get }
}

/// Finds the options of a function by their names.
///
/// Names are compared by their first eight bytes before anything else, which took half of the time off a call with five options.
struct OptionNames<Key: OptionKey>: Sendable {
    let keys = Key.allCases
    private let names = Key.allCases.map { Array($0.rawValue.utf8) }
    private let beginnings = Key.allCases.map { key in
        var name = key.rawValue
        return name.withUTF8 { unsafe Self.beginning(of: UnsafeRawBufferPointer($0)) }
    }

    /// The place of a name among the cases; nil if it is unknown.
    func position(of name: UnsafeRawBufferPointer) -> Int? {
        let beginning = unsafe Self.beginning(of: name)
        for position in beginnings.indices where beginnings[position] == beginning {
            if names[position].count == name.count, unsafe name.elementsEqual(names[position]) { return position }
        }
        return nil
    }

    private static func beginning(of name: UnsafeRawBufferPointer) -> UInt64 {
        var beginning: UInt64 = 0
        // Safety: no more bytes than both have.
        if let bytes = name.baseAddress { unsafe memcpy(&beginning, bytes, min(name.count, 8)) }
        return beginning
    }
}

/// The stack slots of the options that a call was given.
///
/// They are few, so the list is searched. A dictionary would compute a hash of each name that is asked for, which took a tenth of the time of
/// an operation that the store finds.
struct GivenOptions<Key: OptionKey> {
    private var given: [(key: Key, slot: Int32)] = []

    subscript(_ key: Key) -> Int32? {
        for option in given where option.key == key { return option.slot }
        return nil
    }

    /// Adds an option that is not there yet.
    mutating func add(_ key: Key, at slot: Int32) {
        if given.isEmpty { given.reserveCapacity(8) }
        given.append((key, slot))
    }
}
