import Glibc
import OpEngine
import Synchronization
import TestSupport

/// Random operations and actions from several threads, on real workers of two engines. The order is unknown. Each property that must hold in
/// every order is checked where it can fail. The rest is checked at the end.
///
/// An operation waits only for operations that were added before it, so all of them end once nothing is held.
final class FreeRunningRound: Sendable {
    private static let threadCount = 3
    private static let serialQueue = 0

    /// An operation with the facts that the round knows about it.
    private final class Subject: Sendable {
        let number: Int
        let dependencies: [Subject]
        /// The last barrier that was added to the same queue before the operation. The barrier must finish first.
        let barrier: Subject?
        let throwsError: Bool
        /// Whether the operation is in the serial queue, where the order is known.
        let isSerial: Bool
        let runs = Atomic<Int>(0)
        let completions = Atomic<Int>(0)
        let ends = Atomic<Int>(0)
        /// Dependencies that held the operation back after its addition. It must not run before they have finished.
        let heldBy = Locked<[Operation]>([])
        let operation = Locked<Operation?>(nil)

        init(number: Int, dependencies: [Subject], barrier: Subject?, throwsError: Bool, isSerial: Bool) {
            self.isSerial = isSerial
            self.number = number
            self.dependencies = dependencies
            self.barrier = barrier
            self.throwsError = throwsError
        }

        var hasFinished: Bool { operation.withLock { $0 }?.isFinished ?? false }
    }

    /// A queue with the facts that the round knows about it.
    private final class Place: Sendable {
        let queue: OperationQueue
        let isMain: Bool
        let maximum: Int
        let executing = Atomic<Int>(0)
        /// Operations whose addition has returned.
        let added = Locked<[Subject]>([])
        let lastBarrier = Locked<Subject?>(nil)
        /// The numbers of the operations that ran, in order. `additions` has those that were added, in order.
        let order = Locked<[Int]>([])
        let additions = Locked<[Int]>([])

        init(_ queue: OperationQueue, isMain: Bool, maximum: Int) {
            self.queue = queue
            self.isMain = isMain
            self.maximum = maximum
            queue.maxConcurrentOperationCount = maximum
        }
    }

    private let seed: UInt64
    private let limit: Int
    private let engines: [Engine]
    private let places: [Place]
    private let subjects = Locked<[Subject]>([])
    private let count = Atomic<Int>(0)
    private let held = Locked<[HeldOperation]>([])
    private let gated = Locked<[GatedOperation]>([])
    private let violations = Log<String>()
    private let tracker = LifetimeTracker()
    private let isEnding = Atomic<Bool>(false)
    private let flaw: Bool

    /// - Parameter flaw: expects an operation to wait for something that it does not depend on, to see that the checks notice.
    init(seed: UInt64, operations limit: Int, flaw: Bool = false) {
        self.seed = seed
        self.limit = limit
        self.flaw = flaw
        var random = SeededGenerator(seed: seed)
        engines = (0..<2).map { _ in Engine(workerCount: Int.random(in: 1...3, using: &random)) }
        var places: [Place] = []
        for engine in engines {
            places.append(Place(OperationQueue(engine: engine), isMain: false, maximum: 1))
            places.append(Place(OperationQueue(engine: engine), isMain: false, maximum: [-1, 1, 2, 3].randomElement(using: &random)!))
            places.append(Place(engine.mainQueue, isMain: true, maximum: 1))
        }
        self.places = places
    }

    /// Runs the round and returns the violations.
    func run() -> [String] {
        let threads = (0..<FreeRunningRound.threadCount).map { thread in
            TestThread { [self] in
                var random = SeededGenerator(seed: seed &* 31 &+ UInt64(thread))
                for _ in 0..<(limit / FreeRunningRound.threadCount) { act(thread: thread, &random) }
            }
        }
        var random = SeededGenerator(seed: seed &+ 7)
        for _ in 0..<20 {
            for engine in engines { _ = engine.mainInbox.drain() }
            if Int.random(in: 0..<4, using: &random) == 0 { places[2].queue.isSuspended.toggle() }
        }
        for thread in threads { thread.join() }
        end()
        return violations.entries
    }

    // MARK: Actions

    private func act(thread: Int, _ random: inout SeededGenerator) {
        func number(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        addOne(thread: thread, &random)
        guard let subject = anySubject(&random) else { return }
        let operation = subject.operation.withLock { $0 }
        let place = places[number(places.count)]
        switch number(16) {
        case 0: operation?.cancel()
        case 1: if number(6) == 0 { place.queue.cancelAllOperations() }
        case 2: place.queue.isSuspended.toggle()
        case 3: if !subject.isSerial { operation?.queuePriority = Operation.QueuePriority.allCases[number(5)] }
        case 4: if let operation, !subject.isSerial { holdBack(subject, operation) }
        case 5, 6, 7: finishHeld(&random)
        case 8, 9: allowGated(&random)
        case 10: addBarrier(to: place)
        case 11: _ = (place.queue.operations.count, place.queue.operationCount, operation?.isReady, operation?.dependencies.count)
        case 12: _ = try? operation?.tryWaitUntilFinished(until: .now + .microseconds(200))
        case 13: operation?.whenFinished { [self] in read(subject) }
        case 14: operation?.dependencyPolicy = number(2) == 0 ? .succeeded : .finished
        default: if number(20) == 0 { _ = try? place.queue.tryWaitUntilAllOperationsAreFinished(until: .now + .microseconds(200)) }
        }
    }

    private func anySubject(_ random: inout SeededGenerator) -> Subject? {
        subjects.withLock { all in
            guard !all.isEmpty else { return nil }
            return all[max(0, all.count - 1 - Int.random(in: 0..<30, using: &random))]
        }
    }

    private func addOne(thread: Int, _ random: inout SeededGenerator) {
        func number(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
        // Only one thread adds to the serial queue, and only plain operations, so the order is known there.
        let index = number(places.count)
        let isSerial = index == FreeRunningRound.serialQueue
        if isSerial && thread != 0 { return }
        let place = places[index]
        var dependencies: [Subject] = []
        if !isSerial { for _ in 0..<number(3) { if let other = anySubject(&random) { dependencies.append(other) } } }
        let subject = newSubject(place, dependencies: dependencies, throwsError: number(10) == 0, isSerial: isSerial)
        let operation = makeOperation(subject, place, kind: isSerial ? 9 : number(10))
        for dependency in dependencies { if let other = dependency.operation.withLock({ $0 }) { operation.addDependency(other) } }
        if number(8) == 0 && !isSerial { operation.dependencyPolicy = .succeeded }
        if !isSerial { operation.queuePriority = Operation.QueuePriority.allCases[number(5)] }
        add(operation, subject, to: place)
    }

    private func newSubject(
        _ place: Place, dependencies: [Subject] = [], throwsError: Bool = false, isSerial: Bool = false
    ) -> Subject {
        Subject(
            number: count.wrappingAdd(1, ordering: .relaxed).oldValue, dependencies: dependencies,
            barrier: place.lastBarrier.withLock { $0 }, throwsError: throwsError, isSerial: isSerial)
    }

    private func makeOperation(
        _ subject: Subject, _ place: Place, kind: Int, check: @escaping @Sendable () -> Void = {}
    ) -> Operation {
        let token = tracker.token()
        let body: @Sendable () -> Void = { [self] in
            withExtendedLifetime(token) {
                check()
                ran(subject, in: place)
            }
        }
        let operation: Operation
        switch kind {
        case 0:
            operation = HeldOperation { [self] in
                body()
                // The operation counts as executing until `finish` is called.
                place.executing.wrappingAdd(1, ordering: .relaxed)
                held.withLock { if let operation = Operation.current as? HeldOperation { $0.append(operation) } }
            }
        case 1:
            let gate = GatedOperation(body)
            gated.withLock { $0.append(gate) }
            operation = gate
        case 2:
            let block = BlockOperation(block: body)
            block.addExecutionBlock { _ = subject.number }
            operation = block
        case 3:
            let ends = AnnouncingOperation.End.allCases
            operation = AnnouncingOperation(ends[subject.number % ends.count], body)
        default:
            operation = BlockOperation {
                body()
                if subject.throwsError { throw ModelFailure() }
            }
        }
        operation.name = "\(subject.number)"
        operation.whenFinished { [self] in
            subject.ends.wrappingAdd(1, ordering: .relaxed)
            if subject.number % 7 == 0 { read(subject) }
        }
        operation.completionBlock = { [self] in
            subject.completions.wrappingAdd(1, ordering: .relaxed)
            if !subject.hasFinished { violations.append("\(subject.number) completes before it has finished") }
            if subject.number % 13 == 0 { addFromInside(place) }
        }
        subject.operation.withLock { $0 = operation }
        return operation
    }

    private func add(_ operation: Operation, _ subject: Subject, to place: Place) {
        if subject.isSerial { place.additions.withLock { $0.append(subject.number) } }
        do { try place.queue.tryAddOperation(operation) } catch {
            // A thread was about to add the operation when the round ended.
            if isEnding.load(ordering: .relaxed) { return }
            violations.append("adding was refused: \(error)")
        }
        place.added.withLock { $0.append(subject) }
        subjects.withLock { $0.append(subject) }
    }

    /// Adds an operation from a body or a completion block.
    private func addFromInside(_ place: Place) {
        if isEnding.load(ordering: .relaxed) || place === places[FreeRunningRound.serialQueue] { return }
        let subject = newSubject(place)
        add(makeOperation(subject, place, kind: 9), subject, to: place)
    }

    private func addBarrier(to place: Place) {
        let before = place.added.withLock { $0 }
        let subject = newSubject(place)
        let operation = makeOperation(subject, place, kind: 9) { [self] in
            let early = before.filter { !$0.hasFinished }
            if !early.isEmpty { violations.append("a barrier runs before \(early.map(\.number))") }
        }
        do { try place.queue.tryAddBarrier(operation) } catch { violations.append("a barrier was refused: \(error)") }
        subjects.withLock { $0.append(subject) }
        place.lastBarrier.withLock { $0 = subject }
    }

    /// Adds a dependency to an operation in a queue. If the operation is then seen waiting, it must wait for the dependency.
    private func holdBack(_ subject: Subject, _ operation: Operation) {
        let hold = HeldOperation {}
        operation.addDependency(hold)
        if !operation.isReady && operation.dependencies.contains(hold) && !(operation is GatedOperation) {
            subject.heldBy.withLock { $0.append(hold) }
        }
        held.withLock { $0.append(hold) }
    }

    private func finishHeld(_ random: inout SeededGenerator) {
        let choice = Int.random(in: 0..<1_000_000, using: &random)
        let operation = held.withLock { $0.isEmpty ? nil : $0.remove(at: choice % $0.count) }
        guard let operation else { return }
        finish(operation, fails: choice % 3 == 0)
    }

    private func finish(_ operation: HeldOperation, fails: Bool) {
        if operation.isExecuting, let queue = operation.queue {
            places.first { $0.queue === queue }?.executing.wrappingSubtract(1, ordering: .relaxed)
        }
        if fails { operation.finish(with: ModelFailure()) } else { operation.finish() }
    }

    private func allowGated(_ random: inout SeededGenerator) {
        let choice = Int.random(in: 0..<1_000_000, using: &random)
        gated.withLock { $0.isEmpty ? nil : $0.remove(at: choice % $0.count) }?.allow()
    }

    // MARK: Properties that must hold

    private func ran(_ subject: Subject, in place: Place) {
        if subject.runs.wrappingAdd(1, ordering: .relaxed).oldValue != 0 { violations.append("\(subject.number) runs twice") }
        let executing = place.executing.wrappingAdd(1, ordering: .relaxed).newValue
        defer { place.executing.wrappingSubtract(1, ordering: .relaxed) }
        if place.maximum > 0 && executing > place.maximum { violations.append("\(executing) run where \(place.maximum) may") }
        for dependency in subject.dependencies where !dependency.hasFinished {
            violations.append("\(subject.number) runs before \(dependency.number)")
        }
        if flaw, let other = subjects.withLock({ $0.last }), other !== subject, !other.hasFinished { violations.append("canary") }
        if let barrier = subject.barrier, !barrier.hasFinished { violations.append("\(subject.number) overtakes a barrier") }
        if subject.heldBy.withLock({ $0.contains { !$0.isFinished } }) { violations.append("\(subject.number) runs though it was held") }
        if subject.isSerial { place.order.withLock { $0.append(subject.number) } }
        if subject.number % 11 == 0 { addFromInside(place) }
        if subject.number % 17 == 0 { read(subject) }
    }

    /// Reads the properties of an operation on the calling thread.
    private func read(_ subject: Subject) {
        guard let operation = subject.operation.withLock({ $0 }) else { return }
        _ = (operation.isReady, operation.isExecuting, operation.dependencies.count, operation.queue?.operationCount, operation.outcome)
    }

    private func end() {
        isEnding.store(true, ordering: .relaxed)
        for place in places { place.queue.isSuspended = false }
        let limit = ContinuousClock.now + .seconds(60)
        while engines.contains(where: { $0.unfinishedOperationCount > 0 }) && ContinuousClock.now < limit {
            for operation in held.withLock({ all in
                defer { all = [] }; return all
            }) { finish(operation, fails: false) }
            for operation in gated.withLock({ all in
                defer { all = [] }; return all
            }) { operation.allow() }
            for place in places { _ = try? place.queue.tryWaitUntilAllOperationsAreFinished(until: .now + .milliseconds(2)) }
        }
        for operation in held.withLock({ all in
            defer { all = [] }; return all
        }) { finish(operation, fails: false) }
        for place in places where place.queue.operationCount != 0 {
            violations.append("left behind: \(place.queue.operations.map { $0.name ?? "" })")
        }
        for engine in engines where !engine.shutdown(deadline: .seconds(60)).isEmpty { violations.append("the shutdown left some") }
        for engine in engines where engine.threadCount != 0 { violations.append("threads are left") }
        checkEndings()
        let serial = places[FreeRunningRound.serialQueue]
        let ran = Set(serial.order.withLock { $0 })
        if serial.order.withLock({ $0 }) != serial.additions.withLock({ $0 }).filter(ran.contains) {
            violations.append("the serial queue did not run first in, first out")
        }
        for place in places {
            place.added.withLock { $0 = [] }
            place.lastBarrier.withLock { $0 = nil }
        }
        for subject in subjects.withLock({ $0 }) { subject.operation.withLock { $0 = nil } }
        subjects.withLock { $0 = [] }
        // The last thread of an operation may be about to release it, and with it its dependencies and their blocks.
        let deadline = ContinuousClock.now + .seconds(60)
        while tracker.alive != 0 && ContinuousClock.now < deadline { sched_yield() }
        if tracker.alive != 0 { violations.append("\(tracker.alive) blocks are still alive") }
    }

    private func checkEndings() {
        for subject in subjects.withLock({ $0 }) {
            guard let operation = subject.operation.withLock({ $0 }), let outcome = operation.outcome else {
                violations.append("\(subject.number) has not finished")
                continue
            }
            // The thread that announces the end may still call the handlers.
            (operation as? AnnouncingOperation)?.join()
            let (runs, ends) = (subject.runs.load(ordering: .relaxed), subject.ends.load(ordering: .relaxed))
            if ends != 1 { violations.append("the handler of \(subject.number) ran \(ends) times") }
            let completions = subject.completions.load(ordering: .relaxed)
            if let announcing = operation as? AnnouncingOperation {
                let (ends, others) = (announcing.endsTold.withLock { $0 }, announcing.othersTold.withLock { $0 })
                if ends != 1 || others != 0 { violations.append("the end of \(subject.number) was told \(ends) times, others \(others)") }
            }
            if completions != 1 { violations.append("the completion block of \(subject.number) ran \(completions) times") }
            let isLegal =
                switch outcome {
                case .succeeded: runs == 1 && !operation.isCancelled && operation.error == nil
                case .failed: runs == 1 && operation.error != nil
                case .cancelled: operation.isCancelled
                }
            if !isLegal { violations.append("\(subject.number) \(outcome) after \(runs) runs, \(operation.error, default: "no error")") }
        }
    }
}
