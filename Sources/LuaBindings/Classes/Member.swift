import CLua
import Glibc

/// The names by which scripts know the members of a class. The names are the cases of an enumeration, numbered from 1.
protocol Member: CaseIterable, RawRepresentable where RawValue == String, AllCases == [Self] {}

extension Member {
    /// The member with this number; nil for 0, which stands for an unknown name.
    init?(number: Int32) {
        guard number > 0 else { return nil }
        self = Self.allCases[Int(number) - 1]
    }

    /// The member's number in C.
    var number: Int32 { Int32((Self.allCases.firstIndex { $0.rawValue == rawValue } ?? -1) + 1) }

    /// A new table in which C looks up names. It is never freed, because `ScriptModule.host` makes all of them once.
    static var table: (start: UnsafePointer<clua_member>, count: Int) {
        let names = names
        let members = UnsafeMutablePointer<clua_member>.allocate(capacity: max(1, names.count))
        for (index, name) in names.enumerated() {
            // There are over a hundred names, and an array for each would take 600 instructions at each start.
            unsafe members[index] = clua_member(name: name.withCString { unsafe strdup($0) }, member: Int32(index + 1))
        }
        return unsafe (UnsafePointer(members), names.count)
    }

    /// All names, for spelling suggestions.
    static var names: [String] { allCases.map(\.rawValue) }
}

/// The functions of a class without functions, or the properties of one without properties.
enum NoMember: String, Member {
    static let allCases: [NoMember] = []
    case none
}
