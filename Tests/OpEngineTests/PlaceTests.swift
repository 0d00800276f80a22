import Glibc
import OpPlatform
import Synchronization
import TestLimits
import TestSupport
import Testing

@testable import OpEngine

/// The places that programs have among those of the running operations. A thread of its own stands for a program here.
@Suite struct PlaceTests {
    /// Calls `body`, a program with `count` places, for the operation on the calling worker, as the layer above does.
    private static func run(_ count: Int, _ body: @escaping @Sendable () -> Void) {
        guard let worker = Worker.current else { fatalError("a program is started outside of a worker") }
        let engine = worker.engine, count = min(count, engine.placeCount)
        if count > 0, let request = engine.takePlaces(count, for: worker) {
            _ = worker.inbox.run { request.isGranted }
            engine.claim(request)
        }
        let hasEnded = Locked(false)
        engine.hold()
        // The start may sleep in the kernel. The monitor must not take the worker for blocked then, since the program has begun.
        Engine.inPlace {
            TestSupport.startThread {
                body()
                engine.givePlaces(max(0, count - 1))
                hasEnded.withLock { $0 = true }
                worker.inbox.wake()
                engine.release()
            }
        }
        _ = worker.inbox.run(inPlace: count > 0, until: { hasEnded.withLock { $0 } }, deadline: nil)
    }

    /// Counts the places in use.
    private final class Meter: Sendable {
        private let counts = Locked((now: 0, most: 0))
        var most: Int { counts.withLock(\.most) }

        func during(_ places: Int, _ body: () -> Void) {
            counts.withLock {
                $0.now += places
                $0.most = max($0.most, $0.now)
            }
            body()
            counts.withLock { $0.now -= places }
        }
    }

    @Test("A program that an operation waits for keeps the operation's place", .endsWithin(seconds: 60))
    func place() {
        let engine = Engine(workerCount: 3)
        let source = Source(1)
        engine.takePlaces(from: source)
        let queue = OperationQueue(engine: engine)
        let (meter, began, mayEnd) = (Meter(), Gate(), Gate())
        for _ in 0..<2 {
            queue.addOperation {
                Self.run(1) {
                    began.open()
                    mayEnd.wait()
                }
            }
        }
        began.wait(2)
        for _ in 0..<20 { queue.addOperation { Self.run(1) { meter.during(1) {} } } }
        // The monitor asks for a place after each sample of the workers, and must not find them blocked.
        while !engine.isEveryPlaceHeld { sched_yield() }
        source.refused.wait(10)
        #expect(meter.most == 0 && engine.threadCount == 2)
        mayEnd.open()
        mayEnd.open()
        queue.waitUntilAllOperationsAreFinished()
        #expect(meter.most <= 2 && engine.threadCount == 2)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test("A program without a place leaves it to other operations", .endsWithin(seconds: 60))
    func noPlace() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let (began, mayEnd) = (Gate(), Gate())
        queue.addOperation {
            Self.run(0) {
                began.open()
                mayEnd.wait()
            }
        }
        began.wait()
        queue.addOperation { mayEnd.open() }
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test("Two programs that need all places run one after the other", .endsWithin(seconds: 60))
    func allPlaces() {
        let engine = Engine(workerCount: 3)
        let queue = OperationQueue(engine: engine)
        let (meter, ready) = (Meter(), Gate())
        for _ in 0..<2 {
            queue.addOperation {
                // Both have a place when they ask for more.
                ready.open()
                ready.wait()
                Self.run(8) { meter.during(3) {} }
            }
        }
        for _ in 0..<10 { queue.addOperation { Self.run(1) { meter.during(1) {} } } }
        queue.waitUntilAllOperationsAreFinished()
        #expect(meter.most == 3)
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    @Test("A lent place lets another operation run", .endsWithin(seconds: 60))
    func lentPlace() {
        let engine = Engine(workerCount: 1)
        let queue = OperationQueue(engine: engine)
        let (worker, mayEnd) = (Locked<Worker?>(nil), Gate())
        queue.addOperation {
            worker.withLock { $0 = Worker.current }
            Self.run(1) { mayEnd.wait() }
            Worker.current?.engine.endReplacingWorker()
        }
        queue.addOperation { mayEnd.open() }
        while !engine.isEveryPlaceHeld { sched_yield() }
        if let inbox = worker.withLock({ $0?.inbox }) { engine.beginReplacingWorker(with: inbox) }
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
    }

    /// A source of places that others share.
    private final class Source: PlaceSource {
        private let free: Locked<Int>
        /// Opens when no place is free.
        let refused = Gate()
        init(_ count: Int) { free = Locked(count) }
        var left: Int { free.withLock { $0 } }

        func take() -> Bool {
            free.withLock { free in
                if free == 0 {
                    refused.open()
                    return false
                }
                free -= 1
                return true
            }
        }

        func give() { free.withLock { $0 += 1 } }
    }

    @Test("An engine gives places back to their source when its workers are idle or wait", .endsWithin(seconds: 60))
    func source() {
        let engine = Engine(workerCount: 4)
        let source = Source(1)
        engine.takePlaces(from: source)
        let queue = OperationQueue(engine: engine)
        let meter = Meter()
        for _ in 0..<200 { queue.addOperation { meter.during(1) { _ = (0..<1000).reduce(0, +) } } }
        queue.waitUntilAllOperationsAreFinished()
        #expect(meter.most <= 2)
        let (began, mayEnd) = (Gate(), Gate())
        for _ in 0..<2 {
            queue.addOperation {
                Engine.blocking {
                    began.open()
                    mayEnd.wait()
                }
            }
        }
        began.wait(2)
        while source.left != 1 { sched_yield() }
        // Another has the only further place; it is taken as soon as it is free.
        #expect(source.take())
        queue.addOperation {
            Self.run(2) {
                #expect(source.left == 0)
                mayEnd.open()
                mayEnd.open()
            }
        }
        source.give()
        queue.waitUntilAllOperationsAreFinished()
        #expect(engine.shutdown(deadline: .seconds(10)).isEmpty)
        #expect(source.left == 1)
    }

    @Test(
        "Programs of any numbers of places never have more than there are, and all end", .endsWithin(seconds: 120),
        arguments: [false, true])
    func random(hasSource: Bool) {
        for _ in 0..<(TestLength.isLong ? 500 : 20) {
            let seed = UInt64.random(in: 0 ... .max)
            var random = SeededGenerator(seed: seed)
            let workers = Int.random(in: 1...4, using: &random)
            let engine = Engine(workerCount: workers)
            let source = Source(workers - 1)
            if hasSource { engine.takePlaces(from: source) }
            let queues = (0..<2).map { _ in OperationQueue(engine: engine) }
            if Bool.random(using: &random) { queues[1].maxConcurrentOperationCount = 8 }
            let meter = Meter()
            let ended = Atomic<Int>(0)
            let gates = (0..<40).map { _ in Gate() }
            for index in 0..<40 {
                let kind = Int.random(in: 0..<6, using: &random), count = Int.random(in: 0...(workers + 1), using: &random)
                let operation = BlockOperation {
                    switch kind {
                    case 0: _ = (0..<10_000).reduce(0, +)
                    // A wait that the engine has to find, for an operation that has begun before.
                    case 1: if index > 0 { gates[index - 1].wait() }
                    case 2: Self.run(count) { meter.during(min(count, workers)) {} }
                    default:
                        Self.run(count) { meter.during(min(count, workers)) { _ = (0..<1000).reduce(0, +) } }
                        if kind == 3 { Engine.blocking {} }
                        Self.run(1) { meter.during(1) {} }
                    }
                    gates[index].open()
                    ended.wrappingAdd(1, ordering: .relaxed)
                }
                queues[index % 2].addOperation(operation)
            }
            for queue in queues { queue.waitUntilAllOperationsAreFinished() }
            #expect(meter.most <= workers && ended.load(ordering: .relaxed) == 40, "seed \(seed): \(meter.most) of \(workers)")
            #expect(engine.shutdown(deadline: .seconds(30)).isEmpty, "seed \(seed)")
            #expect(source.left == workers - 1, "seed \(seed)")
        }
    }
}
