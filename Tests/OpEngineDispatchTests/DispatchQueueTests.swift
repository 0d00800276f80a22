import Dispatch
import OpEngine
import OpEngineDispatch
import TestSupport
import Testing

@Suite struct DispatchQueueTests {
    private let engine = Engine(workerCount: 1)

    @Test func operationsRunOnTheDispatchQueueAndKnowTheirOwn() {
        let key = DispatchSpecificKey<String>()
        let underlying = DispatchQueue(label: "serial")
        underlying.setSpecific(key: key, value: "here")
        let queue = OperationQueue(engine: engine)
        queue.underlyingQueue = underlying
        #expect(queue.underlyingQueue as? DispatchQueue === underlying)
        let log = Log<Bool>()
        for _ in 0..<50 {
            queue.addOperation {
                log.append(DispatchQueue.getSpecific(key: key) == "here" && OperationQueue.current === queue && Worker.current == nil)
            }
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Array(repeating: true, count: 50))
        #expect(engine.threadCount == 0)
    }

    @Test func itsQualityWinsOverThatOfTheOperationQueue() {
        let queue = OperationQueue(engine: engine)
        queue.qualityOfService = .userInitiated
        queue.underlyingQueue = DispatchQueue.global(qos: .utility)
        #expect(queue.qualityOfService == .utility)
        queue.underlyingQueue = nil
        #expect(queue.qualityOfService == .userInitiated)
    }

    @Test func theMainDispatchQueueIsRefused() {
        let queue = OperationQueue(engine: engine)
        queue.name = "q"
        let error = #expect(throws: OperationError.self) { try queue.trySetUnderlyingQueue(DispatchQueue.main) }
        #expect("\(error!)" == "the underlying queue of queue q cannot be the main one: use OperationQueue.main")
    }

    @Test("One call lets the main dispatch queue run the main queue's operations, which may wait for one another")
    func theMainDispatchQueueRunsTheMainQueue() async throws {
        engine.attachMainQueueToDispatch()
        let main = engine.mainQueue
        let log = Log<Bool>()
        let outer = BlockOperation {
            let inner = BlockOperation {
                dispatchPrecondition(condition: .onQueue(.main))
                log.append(OperationQueue.current === main)
            }
            main.addOperations([inner], waitUntilFinished: true)
            log.append(OperationQueue.current === main)
        }
        main.addOperation(outer)
        try await outer.finished()
        #expect(log.entries == [true, true])
    }

    @Test func aConcurrentQueueRunsAsManyAsTheMaximumAllows() {
        let queue = OperationQueue(engine: engine)
        queue.underlyingQueue = DispatchQueue(label: "concurrent", attributes: .concurrent)
        queue.maxConcurrentOperationCount = 2
        let (began, mayEnd) = (Gate(), Gate())
        let running = Locked((now: 0, most: 0))
        for _ in 0..<6 {
            queue.addOperation {
                running.withLock {
                    $0.now += 1
                    $0.most = max($0.most, $0.now)
                }
                began.open()
                mayEnd.wait()
                running.withLock { $0.now -= 1 }
            }
        }
        began.wait(2)
        mayEnd.open(6)
        queue.waitUntilAllOperationsAreFinished()
        #expect(running.withLock { $0.most } == 2)
    }
}
