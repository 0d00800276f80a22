import Glibc

let stateCases = [
    Case(1, "a new operation is ready and nothing else") {
        let operation = Operation()
        try expect(operation.isReady, "it is not ready")
        try expect(!operation.isExecuting && !operation.isFinished && !operation.isCancelled, "another flag is set")
        try expect(!operation.isAsynchronous, "it is asynchronous")
    },
    Case(1, "isConcurrent is the old name of isAsynchronous") {
        try expect(try !isConcurrent(Operation()), "it is true")
    },
    Case(1, "isReady stays true while it executes and when it has finished") {
        final class Looking: Operation {
            let seen = Log<Bool>()
            override func main() {
                seen.append(isReady)
                seen.append(isExecuting && !isFinished)
            }
        }
        let operation = Looking()
        operation.start()
        try expect(operation.seen.entries == [true, true], "while executing: ready, executing are \(operation.seen.entries)")
        try expect(operation.isReady && operation.isFinished && !operation.isExecuting, "not so when it has finished")
    },
    Case(3, "start on a cancelled operation finishes it without main") {
        final class Watched: Operation {
            let log = Log<String>()
            override func main() { log.append("main") }
            override var isExecuting: Bool {
                let value = super.isExecuting
                if value { log.append("executing") }
                return value
            }
        }
        let operation = Watched()
        operation.cancel()
        try expect(operation.isCancelled && !operation.isFinished, "cancelling alone finished it")
        operation.start()
        try expect(operation.log.entries.isEmpty, "it was: \(operation.log.entries)")
        try expect(operation.isFinished, "it has not finished")
    },
    Case(4, "start by hand runs a synchronous operation on the calling thread") {
        let log = Log<Bool>()
        let here = pthread_self()
        let operation = BlockOperation { log.append(pthread_self() == here) }
        operation.start()
        try expect(log.entries == [true] && operation.isFinished, "it ran elsewhere, or later")
    },
    Case(4, "a queue starts synchronous and asynchronous operations on threads of its own") {
        final class Kind: Operation {
            let asynchronous: Bool
            let here = pthread_self()
            let log = Log<Bool>()
            init(_ asynchronous: Bool) { self.asynchronous = asynchronous }
            override var isAsynchronous: Bool { asynchronous }
            override func main() { log.append(pthread_self() == here) }
        }
        let queue = OperationQueue()
        let both = [Kind(false), Kind(true)]
        queue.addOperations(both, waitUntilFinished: true)
        for operation in both { try expect(operation.log.entries == [false], "it ran on the thread that added it") }
    },
    Case(6, "operations and queues are hashable by identity") {
        let (a, b) = (Operation(), Operation())
        try expect(Set([a, b, a]).count == 2 && a == a && a != b, "operations are not")
        let queue = OperationQueue()
        try expect(Set([queue, queue, OperationQueue()]).count == 2, "queues are not")
    },
]
