import OpPlatform

extension BeyondFoundation where Self: OperationQueue {
    /// Calls `transform` for each element of a sequence in operations of this queue, and returns the results as an asynchronous sequence.
    ///
    /// Iterating adds the operations, `inFlight` of them at a time, so a sequence of any length needs constant memory. An operation takes
    /// as many elements as it handles in about a millisecond: one at first, and more if `transform` is fast. Elements that an operation has
    /// not begun after ten milliseconds are given to others.
    ///
    /// An error of `transform` is thrown in place of the result. It ends the iteration and cancels the operations that are left, as does
    /// leaving the loop. Cancelling the iterating task, or the operations, throws `CancellationError`. A call of `transform` that has begun
    /// continues.
    ///
    /// - Parameters:
    ///   - elements: the inputs. The iterating task takes them, when there is room for another operation.
    ///   - inFlight: the most operations that are in the queue at once, or have results that were not taken. Nil for four for each worker,
    ///     or twice `maxConcurrentOperationCount` (but at most 16,384) if that is more. Traps if it is less than 1.
    ///   - ordered: whether the results have the order of the elements. Otherwise each result is returned as soon as it is available.
    ///   - transform: the work. The queue's threads call this function, several at once.
    public func map<Elements: Sequence, Value: Sendable>(
        _ elements: Elements, inFlight: Int? = nil, ordered: Bool = true,
        _ transform: @escaping @Sendable (Elements.Element) throws -> Value
    ) -> MappedSequence<Elements, Value> where Elements.Element: Sendable {
        let inFlight = inFlight ?? max(4 * engine.workerCount, 2 * min(maxConcurrentOperationCount, 8192))
        precondition(inFlight >= 1, "opscript: inFlight must be at least 1, got \(inFlight)")
        return MappedSequence(queue: self, elements: elements, inFlight: inFlight, isOrdered: ordered, transform: transform)
    }
}

/// The results of `OperationQueue.map`. Each iteration calls `transform` anew.
public struct MappedSequence<Elements: Sequence, Value: Sendable>: AsyncSequence where Elements.Element: Sendable {
    let queue: OperationQueue
    let elements: Elements
    let inFlight: Int
    let isOrdered: Bool
    let transform: @Sendable (Elements.Element) throws -> Value

    /// The results of one iteration. Releasing the iterator cancels the operations that are left.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let mapping: Mapping<Elements, Value>

        /// The next result; nil after the last one.
        public mutating func next() async throws -> Value? { try await mapping.next() }
    }

    /// Begins an iteration.
    public func makeAsyncIterator() -> Iterator { Iterator(mapping: Mapping(self)) }
}

/// One iteration of a mapped sequence.
// Safety: `@unchecked Sendable` because only its iterator has it, which one task at a time uses.
private final class Mapping<Elements: Sequence, Value: Sendable>: @unchecked Sendable where Elements.Element: Sendable {
    private typealias Batch = MappedBatch<Elements.Element, Value>

    private let sequence: MappedSequence<Elements, Value>
    private var elements: Elements.Iterator
    private var hasElements = true
    /// The batches whose results were not taken, in the order of their elements.
    private var batches: [Batch] = []
    private var queuedCount = 0
    /// The number of elements that the next batch takes.
    private var size = 1
    /// The time that it took to get an element when the latest batch was made.
    private var readingTime = Duration.zero
    private var results = [Value]().makeIterator()
    private var failure: (any Error)?
    /// Has an element if a batch has finished since the last one was taken.
    private let finishing = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private var finished: AsyncStream<Void>.Iterator

    init(_ sequence: MappedSequence<Elements, Value>) {
        self.sequence = sequence
        elements = sequence.elements.makeIterator()
        finished = finishing.stream.makeAsyncIterator()
    }

    deinit { cancel() }

    func next() async throws -> Value? {
        while true {
            if let result = results.next() { return result }
            if let failure {
                cancel()
                self.failure = nil
                throw failure
            }
            // One new batch for each that is taken keeps the workers busy. Reading slow elements delays a result by the time for one batch at most.
            let hasAdvanced = advance()
            if let position = finishedPosition {
                settle(batches.remove(at: position), at: position)
            } else if !hasAdvanced {
                if queuedCount == 0 { return nil }
                if await finished.next() == nil {
                    cancel()
                    throw CancellationError()
                }
            }
        }
    }

    /// Adds the next batch to the queue: elements that an earlier batch has left, or new ones. Returns false if there is no room or no element.
    private func advance() -> Bool {
        guard queuedCount < sequence.inFlight else { return false }
        if queuedCount < batches.count, let position = batches.firstIndex(where: { !$0.isQueued }) {
            let batch = batches[position]
            if batch.elements.count > size {
                batches[position] = makeBatch(of: batch.elements.prefix(size))
                batches.insert(makeBatch(of: batch.elements.dropFirst(size)), at: position + 1)
            }
            add(batches[position])
            return true
        }
        guard hasElements else { return false }
        var taken: [Elements.Element] = []
        let start = ContinuousClock.now
        while taken.count < size, hasElements {
            if let element = elements.next() { taken.append(element) } else { hasElements = false }
        }
        if taken.isEmpty { return false }
        readingTime = start.duration(to: .now) / taken.count
        let batch = makeBatch(of: taken[...])
        batches.append(batch)
        add(batch)
        return true
    }

    private func makeBatch(of elements: ArraySlice<Elements.Element>) -> Batch { Batch(elements, sequence.transform) }

    private func add(_ batch: Batch) {
        batch.isQueued = true
        queuedCount += 1
        let continuation = finishing.continuation
        batch.whenFinished { continuation.yield() }
        sequence.queue.addOperation(batch)
    }

    /// The position of a batch that has finished, and is the first one if the sequence is ordered.
    private var finishedPosition: Int? {
        let candidates = sequence.isOrdered ? batches.prefix(1) : batches[...]
        return candidates.firstIndex { $0.isQueued && $0.isFinished }
    }

    /// Takes the results of the batch at `position`, which has finished.
    private func settle(_ batch: Batch, at position: Int) {
        queuedCount -= 1
        let (values, time) = batch.work.withLock { ($0.results, $0.time) }
        results = values.makeIterator()
        failure = batch.error ?? (batch.isCancelled ? CancellationError() : nil)
        guard failure == nil else { return }
        // Batches should take the same time, whether they wait for elements or compute.
        let each = max(time / values.count, readingTime, .nanoseconds(1))
        size = max(1, min(4 * size, Int(Batch.usualTime / each)))
        let left = batch.elements.dropFirst(values.count)
        if !left.isEmpty { batches.insert(makeBatch(of: left), at: position) }
    }

    private func cancel() {
        hasElements = false
        for batch in batches { batch.cancel() }
        batches = []
        queuedCount = 0
    }
}

/// Calls `transform` for some of the elements.
// Safety: `@unchecked Sendable` because a lock guards what `main` writes, and only the iteration uses `isQueued`.
private final class MappedBatch<Element: Sendable, Value: Sendable>: Operation, @unchecked Sendable {
    struct Work {
        var results: [Value] = []
        var time = Duration.zero
    }

    static var usualTime: Duration { .milliseconds(1) }
    /// After this time, a batch leaves the elements that it has not begun.
    private static var longestTime: Duration { .milliseconds(10) }

    let elements: ArraySlice<Element>
    var isQueued = false
    let work = Guarded(Work())
    private let transform: @Sendable (Element) throws -> Value

    init(_ elements: ArraySlice<Element>, _ transform: @escaping @Sendable (Element) throws -> Value) {
        self.elements = elements
        self.transform = transform
        super.init()
        name = "map"
    }

    override func main() {
        let start = ContinuousClock.now
        var work = Work()
        do {
            for element in elements {
                work.results.append(try transform(element))
                work.time = start.duration(to: .now)
                if work.time > Self.longestTime || isCancelled { break }
            }
        } catch { fail(with: error) }
        self.work.withLock { $0 = work }
    }
}
