import CLua

/// The names by which scripts know the members of a class: the cases of an enumeration, numbered from 1.
protocol Member: CaseIterable, RawRepresentable where RawValue == Int32 {}

extension Member {
    /// The table that C looks names up in. Made once for each class, and never freed.
    static var table: (start: UnsafePointer<clua_member>, count: Int) {
        let cases = Array(allCases)
        let members = UnsafeMutablePointer<clua_member>.allocate(capacity: max(1, cases.count))
        for (index, member) in cases.enumerated() {
            let utf8 = Array("\(member)".utf8CString)
            let name = UnsafeMutablePointer<CChar>.allocate(capacity: utf8.count)
            unsafe name.initialize(from: utf8, count: utf8.count)
            unsafe members[index] = clua_member(name: name, member: member.rawValue)
        }
        return unsafe (UnsafePointer(members), cases.count)
    }

    /// All names, for suggestions.
    static var names: [String] { allCases.map { "\($0)" } }
}

/// A class without members of one sort.
enum NoMember: Int32, Member {
    static let allCases: [NoMember] = []
    case none = 0
}
