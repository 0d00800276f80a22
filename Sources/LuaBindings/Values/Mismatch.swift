/// The error for a Lua value that does not fit a Swift type. The host gets it as a `LuaError`.
struct Mismatch: Error {
    /// One step from a table to one of its values.
    enum Component {
        case name(String)
        /// An element of a sequence, counted from 0 as in Swift.
        case index(Int)
        case other(LuaValue)

        init(_ key: LuaValue) {
            switch key {
            case .string(let name): self = .name(name)
            case .integer(let index) where index > 0: self = .index(index - 1)
            default: self = .other(key)
            }
        }

        init(_ key: any CodingKey) {
            if let key = key as? IndexKey {
                self = .index(key.index)
            } else {
                self = key.intValue.map { .other(.integer($0)) } ?? .name(key.stringValue)
            }
        }
    }

    /// From the outermost table to the value.
    var path: [Component]
    /// The reason, for example `expected a number, found "abc"`.
    let reason: String

    init(path: [Component] = [], reason: String) { (self.path, self.reason) = (path, reason) }

    init(path: [Component] = [], expected: String, found: LuaValue) {
        self.init(path: path, reason: "expected \(expected), found \(Grammar.described(found))")
    }

    /// Calls `body` for a value inside of another one, and adds `component` to the path of its error.
    static func within<Result>(_ component: Component, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch var mismatch as Mismatch {
            mismatch.path.insert(component, at: 0)
            throw mismatch
        } catch let error as LuaError {
            guard let mismatch = error.mismatch else { throw error }
            throw Mismatch(path: [component] + mismatch.path, reason: mismatch.reason)
        }
    }

    /// The path as Lua would write it, such as `rows[3].price`; empty for the value itself.
    var pathText: String {
        var text = ""
        for component in path {
            switch component {
            case .name(let name): text += text.isEmpty ? name : ".\(name)"
            case .index(let index): text += "[\(index + 1)]"
            case .other(let key): text += "[\(key)]"
            }
        }
        return text
    }

    var message: String { path.isEmpty ? reason : "\(pathText): \(reason)" }
}

/// Words for messages.
enum Grammar {
    static func indefinite(_ noun: String) -> String {
        let isVowel = noun.first.map { "aeiouAEIOU".contains($0) } ?? false
        return (isVowel ? "an " : "a ") + noun
    }

    /// A value's description in messages.
    static func described(_ value: LuaValue) -> String {
        switch value {
        case .nil, .boolean, .integer, .number, .string, .bytes: value.abbreviated(to: 60)
        case .table: "a table"
        case .operation(let operation): indefinite("\(type(of: operation))")
        case .queue(let queue): indefinite("\(type(of: queue))")
        case .object(let reference): indefinite("\(type(of: reference.object))")
        case .other(let type): indefinite(type)
        }
    }
}
