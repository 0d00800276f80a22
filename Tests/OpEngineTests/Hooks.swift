import OpEngine
import Synchronization
import TestSupport

// The code of the page on logging, metrics and tracing. A test compares the two. Stand-ins have the parts of the packages that the page uses.
// They are nested, because other tests have types with these names.

enum Hooks {
    final class OperationLogger: OperationObserver {
        private let logger: Logger

        init(_ logger: Logger) { self.logger = logger }

        func operationChanged(_ event: OperationEvent) {
            guard event.kind == .finished else { return }
            let operation = event.operation
            let metadata: Logger.Metadata = ["operation": "\(operation.name ?? "unnamed")", "queue": "\(event.queue?.name ?? "none")"]
            switch operation.outcome {
            case .failed:
                let reason = operation.error.map { "\($0)" } ?? "unknown"
                logger.error("operation failed", metadata: metadata.merging(["error": "\(reason)"]) { $1 })
            case .cancelled: logger.notice("operation cancelled", metadata: metadata)
            case .succeeded, nil: logger.debug("operation succeeded", metadata: metadata)
            }
        }
    }

    final class OperationMetrics: OperationObserver {
        private let finished = Counter(label: "operations_finished")
        private let failed = Counter(label: "operations_failed")
        private let waiting = Timer(label: "operations_waiting")
        private let executing = Timer(label: "operations_executing")
        /// When each unfinished operation became ready, or started.
        private let times = Mutex<[ObjectIdentifier: UInt64]>([:])

        func operationChanged(_ event: OperationEvent) {
            let key = ObjectIdentifier(event.operation)
            switch event.kind {
            case .ready: times.withLock { $0[key] = event.time }
            case .started:
                let ready = times.withLock { $0.updateValue(event.time, forKey: key) }
                if let ready { waiting.recordNanoseconds(Int64(event.time - ready)) }
            case .finished:
                let began = times.withLock { $0.removeValue(forKey: key) }
                // A cancelled operation may finish without having started.
                if let began, event.operation.outcome != .cancelled { executing.recordNanoseconds(Int64(event.time - began)) }
                finished.increment()
                if event.operation.outcome == .failed { failed.increment() }
            case .added, .cancelled: break
            }
        }
    }

    final class OperationTracer: OperationObserver {
        private let spans = Mutex<[ObjectIdentifier: any Span]>([:])

        func operationChanged(_ event: OperationEvent) {
            let key = ObjectIdentifier(event.operation)
            switch event.kind {
            case .started:
                let span = startSpan(event.operation.name ?? "operation")
                span.attributes["queue"] = "\(event.queue?.name ?? "none")"
                spans.withLock { $0[key] = span }
            case .finished:
                guard let span = spans.withLock({ $0.removeValue(forKey: key) }) else { return }
                if let error = event.operation.error { span.recordError(error) }
                span.end()
            case .added, .ready, .cancelled: break
            }
        }
    }

    struct Logger: Sendable {
        typealias Metadata = [String: String]
        let label: String
        let lines = Log<String>()

        func error(_ message: String, metadata: Metadata) { log("error", message, metadata) }
        func notice(_ message: String, metadata: Metadata) { log("notice", message, metadata) }
        func debug(_ message: String, metadata: Metadata) { log("debug", message, metadata) }

        private func log(_ level: String, _ message: String, _ metadata: Metadata) {
            let pairs = metadata.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
            lines.append("\(label) \(level): \(message) \(pairs.joined(separator: " "))")
        }
    }

    /// The numbers that the stand-ins have recorded, by label.
    static let records = Locked<[String: [Int64]]>([:])

    struct Counter: Sendable {
        let label: String
        func increment() { Hooks.records.withLock { $0[label, default: []].append(1) } }
    }

    struct Timer: Sendable {
        let label: String
        func recordNanoseconds(_ duration: Int64) { Hooks.records.withLock { $0[label, default: []].append(duration) } }
    }

    protocol Span: Sendable {
        var attributes: [String: String] { get nonmutating set }
        func recordError(_ error: any Error)
        func end()
    }

    struct RecordedSpan: Span {
        static let lines = Log<String>()
        let name: String
        private let stored = Locked<[String: String]>([:])

        init(name: String) { self.name = name }

        var attributes: [String: String] {
            get { stored.withLock { $0 } }
            nonmutating set { stored.withLock { $0 = newValue } }
        }
        func recordError(_ error: any Error) { attributes["error"] = "\(error)" }
        func end() { RecordedSpan.lines.append("\(name) \(attributes.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })") }
    }

    static func startSpan(_ name: String) -> any Span { RecordedSpan(name: name) }
}
