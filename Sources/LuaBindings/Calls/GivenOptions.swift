/// The names of the options of a function.
protocol OptionKey: CaseIterable, Equatable, RawRepresentable<String> where AllCases == [Self] {}

/// The stack slots of the options that a call was given.
///
/// An option is found by its place among the cases. A dictionary would compute a hash of each name that is asked for, which took a tenth of
/// the time of an operation that the store finds.
struct GivenOptions<Key: OptionKey> {
    /// In the order of the cases; 0 if the option was not given.
    private var slots = [Int32](repeating: 0, count: Key.allCases.count)

    subscript(_ key: Key) -> Int32? {
        get {
            guard let position = Key.allCases.firstIndex(of: key), slots[position] != 0 else { return nil }
            return slots[position]
        }
        set { if let position = Key.allCases.firstIndex(of: key) { slots[position] = newValue ?? 0 } }
    }
}
