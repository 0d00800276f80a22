import OpEngine
import TestLimits
import TestSupport
import Testing

@Suite(.endsWithin(seconds: 60)) struct QueueTests {
    @Test("A queue that overrides `addOperation` may refuse an operation")
    func refuses() {
        let queue = BoundedQueue(title: "two", maxSize: 2)
        queue.isSuspended = true
        for _ in 0..<5 { queue.addOperation(Operation()) }
        queue.addOperation {}
        #expect(queue.operationCount == 2 && queue.title == "two")
        queue.isSuspended = false
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test("Subclasses may override how blocks are added, and protocols may require it")
    func overridesForBlocks() {
        struct Failure: Error {}
        let (queue, ran) = (CountingQueue(), Log<String>())
        let blocks = CountingBlocks()
        blocks.addExecutionBlock { ran.append("execution block") }
        (blocks as any BlockHolding).addExecutionBlock {}
        #expect(blocks.blockCount == 2)
        let requirement: any BlockRunning = queue
        requirement.addOperation { ran.append("block") }
        requirement.addBarrierBlock { ran.append("barrier") }
        queue.addOperation(blocks)
        queue.addBarrierBlock {}
        #expect(queue.blockCount == 3)
        // Blocks that throw are not Foundation's.
        queue.addOperation { throw Failure() }
        queue.addBarrierBlock { throw Failure() }
        #expect(queue.blockCount == 3)
        queue.waitUntilAllOperationsAreFinished()
        #expect(ran.entries == ["block", "barrier", "execution block"])
    }

    @Test("What the page on moving says to write instead compiles and works")
    func whatTakesThePlace() {
        #expect(OtherUnderlyingQueue().underlyingQueue == nil)
    }

    @Test("A subclass inherits init(block:), or defines its own")
    func initializersOfBlocks() {
        let (queue, ran) = (OperationQueue(), Log<String>())
        let blocks = InitialisedBlocks { ran.append("block") }
        let titled = TitledBlocks { ran.append("titled") }
        titled.addDependency(blocks)
        queue.addOperations([blocks, InitialisedBlocks(), titled], waitUntilFinished: true)
        #expect(blocks.title == "own" && titled.title == "titled" && ran.entries == ["block", "titled"])
    }

    @Test("A queue that cancels its operations in its deinitialiser lets all of them end")
    func cancelsWhenItGoes() {
        let ended = Gate()
        do {
            let queue = CancellingQueue(maxConcurrentOperationCount: 1)
            queue.isSuspended = true
            let operation = Operation()
            operation.completionBlock = { ended.open() }
            queue.addOperation(operation)
            queue.cancelAllOperations()
            queue.isSuspended = false
        }
        ended.wait()
    }

    // Safety: `@unchecked Sendable` because its properties are constants.
    private final class Delegate: QueueDelegate, @unchecked Sendable {
        let log = Log<String>()
        let finished = Gate()
        func operationQueue(_ queue: DelegatingQueue, willAdd operation: Operation) { log.append("will add \(operation.name ?? "-")") }
        func operationQueue(_ queue: DelegatingQueue, didFinish operation: Operation) {
            if operation.name != nil { finished.open() }
        }
    }

    @Test("A delegate is told of operations, and their conditions run before them")
    func tellsItsDelegate() {
        let (queue, delegate, log) = (DelegatingQueue(), Delegate(), Log<String>())
        queue.delegate = delegate
        let operation = Conditional { log.append("body") }
        operation.name = "conditional"
        operation.addCondition { log.append("condition") }
        queue.addOperations([operation], waitUntilFinished: true)
        delegate.finished.wait()
        #expect(log.entries == ["condition", "body"] && delegate.log.entries == ["will add -", "will add conditional"])
    }

    @Test("Completion blocks can be chained, dependencies added as a list, and operations added one by one")
    func extends() {
        let queue = OperationQueue(name: "extended", limit: 2, quality: .utility)
        queue.pause()
        let (log, completed) = (Log<String>(), Gate())
        let (first, second) = (BlockOperation { log.append("first") }, BlockOperation { log.append("second") })
        let last = BlockOperation { log.append("last") }
        last.addDependencies([first, second])
        second.addDependency(first)
        last.addCompletionBlock { log.append("one") }
        last.addCompletionBlock {
            log.append("two")
            completed.open()
        }
        queue.addOperations(last, second, first)
        let after = last.then(on: queue) {}
        queue.resume()
        after.waitUntilFinished()
        completed.wait()
        #expect(log.entries == ["first", "second", "last", "one", "two"] && queue.name == "extended")
    }

    @Test("A group ends when its operations have ended", arguments: [false, true])
    func groups(isCancelled: Bool) {
        let queue = OperationQueue()
        let (log, began, mayEnd, completed) = (Log<Int>(), Gate(), Gate(), Gate())
        let children = (0..<10).map { number in
            BlockOperation {
                began.open()
                mayEnd.wait()
                log.append(number)
            }
        }
        let group = GroupOperation(operations: children)
        group.completionBlock = { completed.open() }
        let after = BlockOperation { log.append(log.count) }
        after.addDependency(group)
        queue.addOperations([group, after], waitUntilFinished: false)
        began.wait()
        if isCancelled { group.cancel() }
        mayEnd.open(10)
        completed.wait()
        queue.waitUntilAllOperationsAreFinished()
        // A cancelled operation waits for nothing, so the group may end before its executing child.
        group.queue.waitUntilAllOperationsAreFinished()
        #expect(group.isFinished && children.allSatisfy(\.isFinished) && group.queue.operationCount == 0)
        if !isCancelled { #expect(log.entries.last == 10) }
    }

    @Test("An operation can add its next attempt to the queue in which it runs")
    func retries() {
        let queue = OperationQueue()
        let (attempts, done) = (Log<Int>(), Gate())
        queue.addOperation(
            RetryOperation(
                retries: 5,
                attempt: { left in
                    attempts.append(left)
                    return left == 2
                }, completion: { _ in done.open() }))
        done.wait()
        queue.waitUntilAllOperationsAreFinished()
        #expect(attempts.entries == [5, 4, 3, 2])
    }

    @Test("Operations of one category run one after the other")
    func excludes() {
        let (queue, controller) = (OperationQueue(), ExclusivityController())
        let (running, most, log) = (Locked(0), Locked(0), Log<Int>())
        for number in 0..<100 {
            let operation = BlockOperation {
                let now = running.withLock { running -> Int in
                    running += 1
                    return running
                }
                most.withLock { $0 = max($0, now) }
                log.append(number)
                running.withLock { $0 -= 1 }
            }
            controller.add(operation, categories: ["alert"])
            queue.addOperation(operation)
        }
        queue.waitUntilAllOperationsAreFinished()
        #expect(log.entries == Array(0..<100) && most.withLock { $0 } == 1)
    }
}
