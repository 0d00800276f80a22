package import LuaBindings

/// Failures that differ only in the operation, and in the numbers in the message.
package struct FailureGroup {
    private let first: OperationFailure
    private var others: [OperationFailure] = []

    private static let nameLimit = 5

    /// The properties that failures of a group share.
    private struct Key: Hashable {
        let message: String
        let traceback: String
        let kind: OperationFailure.Kind
        let cause: String?

        init(_ failure: OperationFailure) {
            message = failure.traceback.isEmpty ? failure.message : Self.withoutNumbers(failure.message, naming: failure.operationName)
            traceback = failure.traceback
            kind = failure.kind
            cause = failure.cause
        }

        private static func withoutNumbers(_ message: String, naming name: String?) -> String {
            var rest = message[...]
            var result = ""
            while let character = rest.first {
                if let name, character == "'", rest.dropFirst().hasPrefix(name + "'") {
                    rest = rest.dropFirst(name.count + 2)
                    result += "''"
                } else {
                    if !character.isNumber { result.append(character) } else if result.last != "0" { result += "0" }
                    rest = rest.dropFirst()
                }
            }
            return result
        }
    }

    private init(_ first: OperationFailure) { self.first = first }

    /// The groups in the order of their first failures.
    package static func all(of failures: [OperationFailure]) -> [FailureGroup] {
        var groups: [FailureGroup] = []
        var indices: [Key: Int] = [:]
        for failure in failures {
            let key = Key(failure)
            if let index = indices[key] {
                groups[index].others.append(failure)
            } else {
                indices[key] = groups.count
                groups.append(FailureGroup(failure))
            }
        }
        return groups
    }

    /// The report, with a newline at the end.
    package func report(prefix: String) -> String {
        var place = "  in \(first.place)"
        if let cause = first.cause { place += ", because \(cause) failed" }
        return ErrorReport(message: first.message, traceback: first.traceback).text(prefix: prefix, notes: [place] + alike)
    }

    /// The line about the others; empty if there are none.
    private var alike: [String] {
        if others.isEmpty { return [] }
        let names = others.lazy.compactMap(\.shownName).prefix(Self.nameLimit).map { "'\($0)'" }
        let rest = others.count - names.count
        let list = names.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
        return ["  and \(others.count) more alike\(names.isEmpty ? "" : ": \(list)")"]
    }
}
