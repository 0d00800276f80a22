import CLua

/// The names by which scripts know the members of a class. They are the cases of an enumeration, numbered from 1.
protocol Member: CaseIterable, RawRepresentable where RawValue == String, AllCases == [Self] {}

extension Member {
    /// The member with this number; nil for 0, which stands for an unknown name.
    init?(number: Int32) {
        guard number > 0 else { return nil }
        self = Self.allCases[Int(number) - 1]
    }

    /// The member's number in C.
    var number: Int32 { Int32((Self.allCases.firstIndex { $0.rawValue == rawValue } ?? -1) + 1) }

    /// The table in which C looks up names. Made once for each class and never freed.
    static var table: (start: UnsafePointer<clua_member>, count: Int) {
        let names = names
        let members = UnsafeMutablePointer<clua_member>.allocate(capacity: max(1, names.count))
        for (index, text) in names.enumerated() {
            let utf8 = Array(text.utf8CString)
            let name = UnsafeMutablePointer<CChar>.allocate(capacity: utf8.count)
            unsafe name.initialize(from: utf8, count: utf8.count)
            unsafe members[index] = clua_member(name: name, member: Int32(index + 1))
        }
        return unsafe (UnsafePointer(members), names.count)
    }

    /// All names, for spelling suggestions.
    static var names: [String] { allCases.map(\.rawValue) }
}

/// For a class that has no members of some sort.
enum NoMember: String, Member {
    static let allCases: [NoMember] = []
    case none
}
