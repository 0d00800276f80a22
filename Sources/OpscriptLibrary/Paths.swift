import COpscript
import LuaBindings

/// The keys of a path such as `rows[3].price`.
func keys(ofPath path: String) throws -> [LuaValue] {
    var keys: [LuaValue] = []
    var rest = Substring(path)
    while let first = rest.first {
        if first == "[" {
            guard let end = rest.firstIndex(of: "]"), let index = Int(rest[rest.index(after: rest.startIndex)..<end]) else {
                throw Misuse("path has no number in its brackets: \(path)")
            }
            keys.append(.integer(index))
            rest = rest[rest.index(after: end)...]
        } else {
            if first == "." && !keys.isEmpty { rest = rest.dropFirst() }
            let name = rest.prefix { $0 != "." && $0 != "[" }
            if name.isEmpty { throw Misuse("path has an empty name: \(path)") }
            keys.append(.string(String(name)))
            rest = rest[name.endIndex...]
        }
    }
    return keys
}

/// The value at a path has another type than the program asked for.
struct PathError: Error {
    let path: String
    let message: String

    init(path: String, expected type: opscript_type, found: LuaValue) {
        self.path = path
        let reason = LuaError.mismatch(expected: type.named, found: found).message
        message = path.isEmpty ? reason : "\(path): \(reason)"
    }
}

extension opscript_type {
    /// The name of the type, with its article.
    fileprivate var named: String {
        switch self {
        case OPSCRIPT_NIL: "nil"
        case OPSCRIPT_BOOLEAN: "a boolean"
        case OPSCRIPT_INTEGER: "an integer"
        case OPSCRIPT_NUMBER: "a number"
        case OPSCRIPT_STRING: "a string"
        case OPSCRIPT_TABLE: "a table"
        case OPSCRIPT_OPERATION: "an operation"
        case OPSCRIPT_QUEUE: "a queue"
        default: "another value"
        }
    }
}
