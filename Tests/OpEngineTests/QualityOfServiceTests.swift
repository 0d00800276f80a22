import CPlatform
import Glibc
import OpEngine
import TestSupport
import Testing

@Suite struct QualityOfServiceTests {
    /// Records its name and the nice value of its thread, relative to the process's nice value.
    private final class Recorder: Sendable {
        let log = Log<String>()

        func operation(_ name: String, _ quality: QualityOfService = .default) -> BlockOperation {
            let operation = BlockOperation { [self] in record(name) }
            operation.name = name
            operation.qualityOfService = quality
            return operation
        }

        func record(_ name: String) { log.append("\(name) \(cplatform_nice(0) - cplatform_nice(getpid()))") }
    }

    private let recorder = Recorder()

    /// Runs the operations one at a time. None starts before all have been added.
    private func run(on queue: OperationQueue, _ operations: [Operation]) {
        queue.maxConcurrentOperationCount = 1
        queue.isSuspended = true
        queue.addOperations(operations, waitUntilFinished: false)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func theQualityOfAQueueChoosesTheThreadsOfItsOperations() {
        let engine = Engine(workerCount: 2)
        for quality in QualityOfService.allCases {
            let queue = OperationQueue(engine: engine)
            queue.qualityOfService = quality
            #expect(queue.qualityOfService == quality)
            run(on: queue, [recorder.operation("\(quality)")])
        }
        #expect(recorder.log.entries == ["userInteractive 0", "userInitiated 0", "utility 5", "background 10", "default 0"])
    }

    @Test func anOperationsOwnQualityWinsAndNeverChangesTheOrder() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.qualityOfService = .userInitiated
        run(
            on: queue,
            [recorder.operation("a"), recorder.operation("b", .background), recorder.operation("c"), recorder.operation("d", .utility)])
        #expect(recorder.log.entries == ["a 0", "b 10", "c 0", "d 5"])
    }

    @Test func aHigherQualityInsideRaisesTheQueueUntilItHasLeft() {
        let queue = OperationQueue(engine: Engine(workerCount: 2))
        queue.qualityOfService = .background
        run(
            on: queue,
            [recorder.operation("a"), recorder.operation("b", .utility), recorder.operation("c"), recorder.operation("d", .background)])
        #expect(recorder.log.entries == ["a 5", "b 5", "c 10", "d 10"])
    }

    @Test func aChangeTakesEffectWhileItWaits() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        queue.isSuspended = true
        let (first, second) = (recorder.operation("a", .background), recorder.operation("b"))
        queue.maxConcurrentOperationCount = 1
        queue.addOperations([first, second], waitUntilFinished: false)
        first.qualityOfService = .default
        second.qualityOfService = .utility
        #expect(first.qualityOfService == .default && second.qualityOfService == .utility)
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
        #expect(recorder.log.entries == ["a 0", "b 5"])
    }

    /// A thread inherits the nice value of the thread that starts it.
    @Test func aBackgroundOperationsForegroundWorkIsNotNice() {
        let engine = Engine(workerCount: 1)
        let (background, foreground) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
        background.qualityOfService = .background
        let inner = recorder.operation("inner")
        background.addOperation { [recorder] in
            recorder.record("outer")
            foreground.addOperations([inner], waitUntilFinished: true)
        }
        background.waitUntilAllOperationsAreFinished()
        #expect(recorder.log.entries == ["outer 10", "inner 0"])
    }

    @Test func allGroupsTogetherKeepToTheNumberOfWorkers() {
        let engine = Engine(workerCount: 2)
        let running = Locked((now: 0, most: 0))
        let queues = QualityOfService.allCases.map { quality in
            let queue = OperationQueue(engine: engine)
            queue.qualityOfService = quality
            return queue
        }
        for _ in 0..<200 {
            for queue in queues {
                queue.addOperation {
                    running.withLock {
                        $0.now += 1
                        $0.most = max($0.most, $0.now)
                    }
                    running.withLock { $0.now -= 1 }
                }
            }
        }
        for queue in queues { queue.waitUntilAllOperationsAreFinished() }
        #expect(running.withLock { $0.most } <= 2)
        #expect(engine.threadCount <= 6)
    }

    @Test func importantWorkComesFirstAndTheRestIsNotForgotten() {
        // With one thread, so that no other one takes work while the first is held.
        let engine = Engine(workerCount: 1, threadLimit: 1)
        let began = Gate(), mayGoOn = Gate()
        OperationQueue(engine: engine).addOperation {
            began.open()
            mayGoOn.wait()
        }
        began.wait()
        let log = Log<String>()
        for quality in [QualityOfService.background, .userInitiated] {
            for _ in 0..<20 {
                let queue = OperationQueue(engine: engine)
                queue.qualityOfService = quality
                queue.addOperation { log.append("\(quality)") }
            }
        }
        mayGoOn.open()
        while log.count < 40 { engine.unfinishedOperations().last?.waitUntilFinished() }
        #expect(log.entries[0] == "userInitiated")
        let firstOfTheRest = log.entries.firstIndex(of: "background")!
        #expect((1..<20).contains(firstOfTheRest))
        #expect(log.entries[..<firstOfTheRest].count <= 8)
    }

    @available(*, deprecated, message: "tests what is deprecated")
    @Test func aThreadPriorityChoosesTheThreadUnlessThereIsAQuality() {
        let queue = OperationQueue(engine: Engine(workerCount: 1))
        let operations = [("a", 0.1), ("b", 0.3), ("c", 0.5), ("d", 1)].map { name, priority in
            let operation = recorder.operation(name)
            #expect(operation.threadPriority == 0.5)
            operation.threadPriority = priority
            return operation
        }
        let wins = recorder.operation("e", .utility)
        wins.threadPriority = -1
        #expect(wins.threadPriority == 0)
        // The operations are added one by one: a thread priority above the middle would raise the whole queue.
        for operation in operations + [wins] { queue.addOperations([operation], waitUntilFinished: true) }
        #expect(recorder.log.entries == ["a 10", "b 5", "c 0", "d 0", "e 5"])
    }
}
