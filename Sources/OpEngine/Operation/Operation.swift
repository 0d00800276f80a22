import Glibc
import Synchronization

/// A piece of work that runs once, alone or in an `OperationQueue`, after the operations it depends on.
///
/// A subclass overrides `main`; or, when its work goes on after `start` has returned, `start`, `isExecuting`, `isFinished` and
/// `isAsynchronous`, announcing changes with `willChangeValue(forKey:)` and `didChangeValue(forKey:)`. `AsyncOperation` does
/// the latter for you. Every method may be called from every thread.
@safe open class Operation: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property says below what protects it.

    /// Phase, flags, priority and unfinished dependencies. See `State`.
    let state = Atomic<UInt64>(0)
    /// Guards `extras` and the list of dependencies.
    let lock = Lock()
    /// Guards the list of dependents. Taken last; the memory of a dependent on the list is there while it is held.
    let dependentsLock = Lock()

    // What a lock guards needs no check for exclusive access. All of this, with what `BlockOperation` adds, is 104 bytes, for which glibc's
    // allocator takes 112; more than 120 it would give back with a lock of its own.

    /// In order of addition. Guarded by `lock`.
    @safe @exclusivity(unchecked) var dependencyList = DependencyList()
    /// In order of addition. Guarded by `dependentsLock`.
    @safe @exclusivity(unchecked) var dependentList = DependentList()
    /// What most operations do not have. Guarded by `lock`.
    @safe @exclusivity(unchecked) var extras: Extras?

    /// `core`; nil until it has been in a queue.
    private let storedCore = unsafe Atomic<UnsafeRawPointer?>(nil)
    /// Of the queue's list that `place` says. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var links = OperationLinks()
    /// Greater than those of the operations that were added to the queue before it. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var number: UInt32 = 0
    /// Where its queue has it. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var place = Place.outside
    /// The rank that its queue counts it with. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var countedRank = QualityRank.unspecified
    /// `qualityOfService` and `threadPriority`. See `QualityRank`.
    let requestedQuality = Atomic<UInt8>(0)

    /// Where a queue has an operation.
    struct Place: Equatable {
        private let value: UInt8

        /// In no queue, or left it.
        static let outside = Place(value: 0)
        /// On the list of those that wait: not ready, or on its way to the ready list.
        static let waiting = Place(value: 1)
        /// The same, and a dependency was added while it was on its way.
        static let heldBack = Place(value: 2)
        /// A worker took it: on the list of those that run.
        static let taken = Place(value: 3)
        private static let firstReady: UInt8 = 4

        private init(value: UInt8) { self.value = value }

        /// On the ready list.
        @inline(__always) init(readyAt level: UInt8) { value = Place.firstReady + level }

        @inline(__always) var isReady: Bool { value >= Place.firstReady }
        /// Its priority there, which may have been changed since.
        @inline(__always) var level: UInt8 { value - Place.firstReady }
    }

    /// Makes an operation that does nothing unless `main` is overridden.
    public init() {}

    deinit {
        if !dependencyList.isEmpty { dependencyList.removeAll() }
        if loadState().isGivenUp { StartedByHand.end() }
    }

    // MARK: What subclasses override

    /// Starts the operation: checks, runs `main` on the calling thread, and finishes it. A queue calls it on one of its threads.
    ///
    /// A cancelled operation is finished without `main`; a finished one is left as it is. A subclass whose `isFinished` says no when `main`
    /// has returned goes on until it announces another value. Traps when the operation is not ready, executing or in a queue.
    /// An override must not call `super.start()`.
    open func start() { startAsDocumented() }

    /// The work. Does nothing here.
    open func main() {}

    /// Asks the operation to stop: nothing if it has finished; else `isCancelled` becomes true, and one that has not started becomes
    /// ready at once, whatever it depends on, so that its queue finishes it without `main`. What executes has to look at `isCancelled`.
    open func cancel() {
        if transition({ $0.cancel() }) == .post { postToQueue() }
        deliverChanges()
    }

    /// Whether its dependencies allow it to start, or it has begun or ended. O(1) when they do; else it looks for one that has not finished.
    open var isReady: Bool { loadState().isReady || waitsForNobody }

    /// Whether it has started and not finished.
    open var isExecuting: Bool { loadState().has(State.executing) }

    /// Whether it has ended, in whatever way. Changes once, and stays.
    open var isFinished: Bool {
        let state = loadState()
        return state.has(State.finished | State.goesOnAfterMain) || state.has(State.isAskedAfterMain) && isAskedHere
    }

    /// Whether `cancel()` was called in time.
    open var isCancelled: Bool { loadState().has(State.cancelled) }

    /// Whether its work may go on after `start` has returned. A queue treats both kinds alike.
    open var isAsynchronous: Bool { false }

    /// The old name of `isAsynchronous`.
    open var isConcurrent: Bool { isAsynchronous }

    /// The value of an observable property by its name, in both spellings; nil for a name that is not known, and for a property that
    /// is nil. A subclass that announces properties of its own by strings overrides it, so that observers are told their values.
    open func value(forKey key: String) -> (any Sendable)? { observedValue(ObservedKey(key)) }

    // MARK: What subclasses seldom override

    // What the layer above overrides, and nobody else sees: a subclass may have methods of its own with these names.

    /// What a subclass does when the operation is about to finish: nobody has seen `isFinished` yet. Nothing here.
    ///
    /// It is called once if `tellWhenFinished()` has been called before the end began, on the finishing thread, with no lock held. It must be
    /// cheap.
    @_spi(Subclassing) open func willFinish() {}

    /// What a subclass does when the operation has finished, and its completion block has been called. Nothing here.
    ///
    /// It is called once if `tellWhenFinished()` has been called before, and once more for each call of that which comes later; as
    /// `willFinish` is.
    @_spi(Subclassing) open func didFinish() {}

    /// Whether a subclass is ready, apart from its dependencies: what its `isReady` adds. True here. `whyNotRunning` asks it.
    @_spi(Subclassing) open var isReadyByItself: Bool { true }

    /// What `completionBlock` and `trySetCompletionBlock` do.
    @_spi(Subclassing) open func replaceCompletionBlock(with block: (@Sendable () -> Void)?) throws {
        let isObserved = isObserved
        let replaced = try storeCompletionBlock(block)
        if isObserved { completionBlockHasChanged(from: replaced, to: block) }
    }

    /// A name for messages; nil by default.
    open var name: String? {
        get { storedName }
        set { storedName = newValue }
    }

    /// Where it stands among the ready operations of its queue. A change takes effect at once.
    open var queuePriority: QueuePriority {
        get { storedPriority }
        set { storedPriority = newValue }
    }

    /// How much the work matters. It decides on which threads the operation runs, not when: `utility` and `background` work runs on
    /// threads with the nice values 5 and 10, everything else on threads with the process's own.
    ///
    /// It wins over the quality of the queue; a higher one raises the whole queue while the operation is in it. A change takes effect
    /// if the operation has not started. `.default` says nothing.
    open var qualityOfService: QualityOfService {
        get { requestedQualityOfService }
        set { requestedQualityOfService = newValue }
    }

    /// How much processor time `main` gets beside others, from 0 to 1; 0.5 by default. Other values move to the nearest end.
    ///
    /// Below 0.25 the operation runs where `background` work does, below 0.5 where `utility` work does, unless it has a
    /// `qualityOfService`, which wins.
    @available(*, deprecated, message: "use qualityOfService")
    open var threadPriority: Double {
        get { requestedThreadPriority }
        set { requestedThreadPriority = newValue }
    }

    /// What it depends on, in order of addition, finished ones included, until they are removed. O(n).
    open var dependencies: [Operation] { listed }

    /// Makes it wait until `operation` has finished, in whatever queue or none. Adding it twice counts once. No effect on one that
    /// has started. Traps on a dependency on oneself; accepts a cycle, as Foundation does, which nothing but cancelling ends.
    open func addDependency(_ operation: Operation) {
        guard operation !== self else { trap(OperationError.dependsOnItself(operation: label)) }
        link(to: operation)
    }

    /// Stops waiting for `operation`; if it was the last unfinished one, this operation becomes ready. O(n).
    open func removeDependency(_ operation: Operation) { unlink(from: operation) }

    /// What runs when the operation has finished, on no promised thread. It is released before it is called, once.
    ///
    /// A block that is set when the operation has finished never runs; `trySetCompletionBlock` says so.
    open var completionBlock: (@Sendable () -> Void)? {
        get { lock.withLock { extras?.completionBlock }?.call }
        set { try? replaceCompletionBlock(with: newValue) }
    }

    /// Waits until it has finished. On a worker another thread takes its place; on the thread of a main queue that queue goes on.
    ///
    /// Traps when the calling thread is running it, or when nothing can end the wait.
    open func waitUntilFinished() {
        do { try tryWaitUntilFinished() } catch { trap(error) }
    }

    // MARK: As an object

    /// The class and the address, as Foundation's objects have it.
    open var description: String { objectDescription(self) }

    /// `description`, unless a subclass says more.
    open var debugDescription: String { description }

    /// Whether `object` equals this one: by default, whether it is the same. `==` asks it.
    open func isEqual(_ object: Any?) -> Bool { self === object as AnyObject? }

    /// What `hash(into:)` feeds: by default, it follows from the identity. Equal objects need equal values.
    open var hash: Int { ObjectIdentifier(self).hashValue }

    // MARK: The state word

    @inline(__always)
    func loadState() -> State { State(bits: state.load(ordering: .acquiring)) }

    /// Changes the state word in one step. `change` may run more than once and must be pure. While somebody observes the operation,
    /// `record` says what they are told of it.
    @inline(__always)
    @discardableResult
    func transition<Action>(
        _ change: (inout State) -> Action,
        recording record: (inout Mailbox.State, State, State) -> Void = { $0.record(from: $1, to: $2) }
    ) -> Action {
        var old = state.load(ordering: .relaxed)
        while true {
            if old & State.observed != 0 { return observedTransition(change, recording: record) }
            var new = State(bits: old)
            let action = change(&new)
            let (exchanged, current) = state.weakCompareExchange(
                expected: old, desired: new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
            if exchanged { return action }
            old = current
        }
    }

    // MARK: The queue

    /// The queue that it is in, or was; for who has seen that it is linked.
    @inline(__always)
    var core: Unmanaged<OperationQueue.Core> {
        // Safety: a queue's core outlives the operations in it.
        if let core = unsafe storedCore.load(ordering: .acquiring) { return unsafe .fromOpaque(core) }
        return unsafe coreInAMoment
    }

    /// The thread that has just linked it is about to say where. It needs nothing for that which the caller may hold.
    @inline(never)
    private var coreInAMoment: Unmanaged<OperationQueue.Core> {
        while true {
            // Safety: as above.
            if let core = unsafe storedCore.load(ordering: .acquiring) { return unsafe .fromOpaque(core) }
            sched_yield()
        }
    }

    /// By the thread that has claimed it, and will link it or just has.
    @inline(__always)
    func setCore(_ core: OperationQueue.Core) {
        unsafe storedCore.store(UnsafeRawPointer(Unmanaged.passUnretained(core).toOpaque()), ordering: .releasing)
    }

    /// Called right after the transition that said so, with no user code in between: until then the queue keeps the operation.
    @inline(__always)
    func postToQueue() {
        // Safety: `Core.leave` waits for a post that is on its way. The core is retained: as soon as the post has arrived, the operation
        // may run, end, and let its queue go, while this thread is still inside.
        let core = unsafe self.core.takeUnretainedValue()
        core.post(self)
    }
}

extension Operation: Hashable, CustomStringConvertible, CustomDebugStringConvertible {
    /// Whether they are equal as `isEqual` says: by default, when they are the same object.
    public static func == (left: Operation, right: Operation) -> Bool { left.isEqual(right) }

    /// Hashes `hash`.
    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

/// What Foundation prints of an object that says nothing about itself.
func objectDescription(_ object: AnyObject) -> String {
    // Safety: the address is only printed.
    let address = unsafe UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque())
    return "<\(type(of: object)): 0x\(String(address, radix: 16))>"
}

extension [Operation] {
    /// Cancels all of them, so that no end of one lets another begin before its turn: what executes last, as its end makes room; dependents
    /// before what they depend on; otherwise what comes last first. O(n), with their dependencies.
    package func cancelAll(by cancel: (Operation) -> Void = { $0.cancel() }) {
        var executing: [Operation] = []
        for operation in dependenciesFirst.reversed() {
            if operation.isExecuting {
                executing.append(operation)
            } else {
                cancel(operation)
            }
        }
        for operation in executing { cancel(operation) }
    }

    /// The same, each after those of them that it depends on; otherwise in their order.
    private var dependenciesFirst: [Operation] {
        guard contains(where: { !$0.dependencies.isEmpty }) else { return self }
        // By identity: subclasses may call two operations equal.
        var (left, entered, sorted) = (Set(map { ObjectIdentifier($0) }), Set<ObjectIdentifier>(), [Operation]())
        var path: [Operation] = []
        for operation in self {
            path.append(operation)
            while let next = path.last {
                if entered.insert(ObjectIdentifier(next)).inserted {
                    path += next.dependencies.filter { left.contains(ObjectIdentifier($0)) && !entered.contains(ObjectIdentifier($0)) }
                } else {
                    path.removeLast()
                    if left.remove(ObjectIdentifier(next)) != nil { sorted.append(next) }
                }
            }
        }
        return sorted
    }
}
