import CTestSupport
import Glibc
import TestSupport
import Testing

@testable import OpEngine

@Suite struct SpinningWorkerTests {
    private let engine = Engine(workerCount: 1)

    /// The test has its own process. A worker that sleeps for a lock looks blocked and is replaced when the holder is no worker. Other
    /// tests take such a lock when they change the address space. A sanitizer has more of them.
    @Test func aSpinningWorkerServesOtherQueues() async {
        await #expect(processExitsWith: .success) {
            let engine = Engine(workerCount: 1)
            let (first, second) = (OperationQueue(engine: engine), OperationQueue(engine: engine))
            for _ in 0..<2000 {
                first.addOperation {}
                second.addOperation {}
                first.addOperation {}
                second.waitUntilAllOperationsAreFinished()
            }
            first.waitUntilAllOperationsAreFinished()
            let isSanitized = has_address_sanitizer() || has_thread_sanitizer()
            #expect(isSanitized ? engine.threadCount <= 4 : engine.threadCount == 1)
        }
    }

    @Test func aSpinningWorkerReleasesTheQueue() {
        var queue: OperationQueue? = OperationQueue(engine: engine)
        weak let core = queue?.core
        for _ in 0..<100 { queue?.addOperation {} }
        queue?.waitUntilAllOperationsAreFinished()
        queue = nil
        #expect(engine.shutdown(deadline: .seconds(10)) == [])
        #expect(core == nil)
    }

    /// A worker does not retain the queue it served last, however long it serves another one.
    @Test func aWorkerThatServesAnotherQueueLetsTheLastOneGo() {
        let (started, end) = (Gate(), Gate())
        let second = OperationQueue(engine: engine)
        var first: OperationQueue? = OperationQueue(engine: engine)
        weak let core = first?.core
        first?.addOperation {
            second.addOperation {
                started.open()
                end.wait()
            }
        }
        first?.waitUntilAllOperationsAreFinished()
        first = nil
        started.wait()
        #expect(core == nil)
        end.open()
        second.waitUntilAllOperationsAreFinished()
    }
}
