import Foundation
import LuaBindings
import Synchronization

/// A script of a client and its limits.
struct Job: Sendable {
    static let seconds = Duration.seconds(1)
    static let outputBytes = 64 << 10

    let script: String

    /// Runs the script in a runtime of its own, which is closed at the end. Returns its output and its results, or its error, as lines of
    /// JSON.
    func run(_ deadlines: Deadlines) -> String {
        let output = Output()
        do {
            let runtime = try Runtime(Self.configuration(output))
            defer { runtime.close(deadline: .seconds(1)) }
            let group = Runtime.Group(of: runtime)
            let deadline = deadlines.add(group)
            defer { deadlines.remove(deadline) }
            do {
                let values = try runtime.enter(in: group) { try runtime.run(script, name: "=script") }
                return output.lines + (try values.map { try Self.line(["result": $0]) }.joined())
            } catch is CancellationError {
                return output.lines + Self.error("time", "the script ran longer than it may")
            }
        } catch let error as LuaError {
            return output.lines + Self.error(Self.name(of: error.kind), error.message)
        } catch {
            return output.lines + Self.error("result", "the script returned what JSON cannot express")
        }
    }

    private static func configuration(_ output: Output) -> Runtime.Configuration {
        var configuration = Runtime.Configuration()
        configuration.workerCount = 1
        configuration.ignoresEnvironment = true
        configuration.stateMemoryLimit = 32 << 20
        configuration.output = { output.append($0) }
        configuration.errorOutput = { output.append($0) }
        configuration.sandbox = .untrusted
        configuration.limits = .untrusted
        return configuration
    }

    // MARK: JSON

    private static func line(_ fields: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(fields), as: UTF8.self) + "\n"
    }

    static func error(_ kind: String, _ message: String) -> String {
        (try? line(["error": ["kind": kind, "message": message]])) ?? ""
    }

    private static func name(of kind: LuaError.Kind) -> String {
        switch kind {
        case .syntax: "syntax"
        case .memory: "memory"
        case .time, .interrupted, .instructions: "time"
        case .runtime, .notSendable, .conversion: "runtime"
        }
    }

    /// The output of a script, up to a limit.
    private final class Output: Sendable {
        private let bytes = Mutex<[UInt8]>([])

        func append(_ more: [UInt8]) { bytes.withLock { $0 += more.prefix(Job.outputBytes - $0.count) } }

        /// A line of JSON, if the script has output.
        var lines: String {
            let text = bytes.withLock { String(decoding: $0, as: UTF8.self) }
            return text.isEmpty ? "" : (try? Job.line(["output": text])) ?? ""
        }
    }
}
