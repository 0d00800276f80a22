import OpEngine

extension Operation.QueuePriority {
    /// The name of the priority in scripts.
    var scriptName: String { "\(self)" }

    init?(scriptName: String) {
        guard let priority = Self.allCases.first(where: { $0.scriptName == scriptName }) else { return nil }
        self = priority
    }
}

extension QualityOfService {
    /// The name of the quality of service in scripts.
    var scriptName: String { "\(self)" }

    init?(scriptName: String) {
        guard let quality = Self.allCases.first(where: { $0.scriptName == scriptName }) else { return nil }
        self = quality
    }
}

extension OperationDependencyPolicy {
    /// The name of the policy in scripts.
    var scriptName: String { "\(self)" }

    init?(scriptName: String) {
        switch scriptName {
        case "finished": self = .finished
        case "succeeded": self = .succeeded
        default: return nil
        }
    }
}

extension Double {
    /// The number as text, without a decimal point if it is integral.
    var scriptText: String { isNaN ? "nan" : Int(exactly: self).map { "\($0)" } ?? "\(self)" }
}

extension Call {
    func queuePriority(at index: Int32) throws(CallError) -> Operation.QueuePriority {
        if let number = integer(at: index) { return Operation.QueuePriority(nearestTo: number) }
        guard let priority = string(at: index).flatMap({ Operation.QueuePriority(scriptName: $0) }) else {
            throw unknown("queuePriority", Operation.QueuePriority.allCases.map(\.scriptName), at: index)
        }
        return priority
    }

    func qualityOfService(at index: Int32) throws(CallError) -> QualityOfService {
        guard let quality = string(at: index).flatMap({ QualityOfService(scriptName: $0) }) else {
            throw unknown("qualityOfService", QualityOfService.allCases.map(\.scriptName), at: index)
        }
        return quality
    }

    func dependencyPolicy(at index: Int32) throws(CallError) -> OperationDependencyPolicy {
        guard let policy = string(at: index).flatMap({ OperationDependencyPolicy(scriptName: $0) }) else {
            throw unknown("dependencyPolicy", ["finished", "succeeded"], at: index)
        }
        return policy
    }

    /// A positive number of bytes; nil for no limit.
    func memoryLimit(at index: Int32) throws(CallError) -> Int? {
        if isMissing(at: index) { return nil }
        let bytes = try requiredInteger(at: index)
        guard bytes > 0 else { throw .argument(index, "bytes must be more than 0, got \(bytes)") }
        return bytes
    }

    /// A positive number of seconds; nil for no limit. Starts the thread that keeps the limit.
    func timeLimit(at index: Int32) throws(CallError) -> Double? {
        if isMissing(at: index) { return nil }
        let seconds = try number(at: index)
        guard seconds > 0 else { throw .argument(index, "seconds must be more than 0, got \(seconds.scriptText)") }
        do throws(Failure) { try state.core.io.start() } catch { throw CallError(error) }
        return seconds
    }

    private func unknown(_ property: String, _ known: [String], at index: Int32) -> CallError {
        let given = string(at: index).map { "'\($0)'" } ?? typeName(at: index)
        return .message("\(property) must be one of \(known.map { "\"\($0)\"" }.joined(separator: ", ")), got \(given)")
    }
}
