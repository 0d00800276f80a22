import Foundation
import OpEngine
import Testing

@Suite struct NameTests {
    @Test("Inside a subclass, short names mean the types of the application")
    func types() {
        #expect(OperationWithTypes().types() == NamedTypes())
        #expect(BlocksWithTypes().types() == NamedTypes())
        #expect(QueueWithTypes().types() == NamedTypes())
    }

    @Test("A subclass may declare members with the names of those that Foundation does not have")
    func members() {
        let expected = """
            state result error outcome queue engine group attempt needs retryPolicy dependencyPolicy \
            whyNotRunning current finish finisherrors finish1 fail2 end finished values observe3 whenFinished transition
            """
        let operation = OperationWithMembers()
        #expect(operation.members() == expected)
        #expect((operation as OpEngine.Operation).outcome == nil)
        let queue = QueueWithMembers()
        #expect(queue.members() == "engine events maxPendingOperationCount dependencyPolicy map finished observer")
        #expect(queue.addOperation { await Task.yield() } == "async")
    }

    @Test("A subclass's member is meant even where the type of the engine's member fits without a conversion")
    func membersWithOtherTypes() {
        let operation = OperationWithOwnQueue()
        let queue: OpEngine.OperationQueue = operation.ownQueue
        let isSame = queue === operation.queue
        let optional: OpEngine.OperationQueue? = operation.queue
        let error: (any Error)? = operation.error
        #expect(isSame && optional === queue && error is CancellationError)
        #expect(operation.isAnotherAttempt)
    }

    @Test("An extension may declare members with the names of those that Foundation does not have")
    func membersOfExtensions() {
        let operation = OpEngine.Operation()
        let texts: [String] = [operation.attemptErrors, operation.exclusiveKeys, operation.tryStart(), OpEngine.OperationQueue().rateLimit]
        #expect(texts == Array(repeating: "extension", count: 4))
    }

    /// The members that Foundation's classes declare or inherit, without parameters and types. `QueuePriority` is the only nested type.
    static let names: [String: Set<String>] = [
        "Operation": [
            "==", "QueuePriority", "addDependency", "cancel", "completionBlock", "debugDescription", "dependencies", "description",
            "didChangeValue", "hash", "init", "isAsynchronous", "isCancelled", "isConcurrent", "isEqual", "isExecuting", "isFinished",
            "isReady", "keyPathsForValuesAffectingValue", "main", "name", "qualityOfService", "queuePriority", "removeDependency", "start",
            "threadPriority", "value",
            "waitUntilFinished", "willChangeValue",
        ],
        "BlockOperation": ["addExecutionBlock", "executionBlocks", "init", "main"],
        "OperationQueue": [
            "==", "addBarrierBlock", "addOperation", "addOperations", "cancelAllOperations", "current", "debugDescription",
            "defaultMaxConcurrentOperationCount", "description", "didChangeValue", "hash", "init", "isEqual", "isSuspended",
            "keyPathsForValuesAffectingValue", "main",
            "maxConcurrentOperationCount", "name", "operationCount", "operations", "progress", "qualityOfService", "underlyingQueue",
            "value", "waitUntilAllOperationsAreFinished", "willChangeValue",
        ],
    ]

    @Test(
        "Classes of Foundation declare only what Foundation's do, so that subclasses may declare all else", arguments: names.keys.sorted())
    func declaresNothingElse(name: String) throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
        let record = try String(contentsOf: root.appendingPathComponent("docs/api/OpEngine.txt"), encoding: .utf8)
        let declaration = #/(?:\b(?:func|var|let|class|struct|enum|protocol|typealias)|\b(?=init\b)) ?(==|[A-Za-z]+)/#
        let declared = record.split(separator: "\n").filter { $0.hasPrefix(name + ": ") }.map { line in
            let text = line.dropFirst(name.count + 2).replacing("open class ", with: "open ")
            return text.firstMatch(of: declaration).map { String($0.1) } ?? String(line)
        }
        let others = Set(declared).subtracting(try #require(Self.names[name]))
        #expect(others.isEmpty, "declare these in an extension of BeyondFoundation, and types outside: \(others.sorted())")
        #expect(!declared.isEmpty)
    }
}
