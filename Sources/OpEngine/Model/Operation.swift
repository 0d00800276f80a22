import Glibc
import OpPlatform
import Synchronization

/// A unit of work that runs once, either alone or in an `OperationQueue`, after the operations it depends on have finished.
///
/// A subclass usually overrides only `main`. A subclass whose work continues after `start` has returned overrides `start`, `isExecuting`,
/// `isFinished` and `isAsynchronous`, and announces changes with `willChangeValue(forKey:)` and `didChangeValue(forKey:)`. `AsyncOperation`
/// does all of that for you. Every method is safe to call from any thread.
@safe open class Operation: @unchecked Sendable {
    // Safety: `@unchecked Sendable` because each stored property states below what protects it.

    /// The phase, the flags, the priority and the number of unfinished dependencies. See `State`.
    let state = Atomic<UInt64>(0)
    /// Guards `extras` and `dependencyList`.
    let lock = Lock()
    /// Guards `dependentList`. It is the innermost of the operation and queue locks. While it is held, the memory of every dependent on the
    /// list stays valid.
    let dependentsLock = Lock()

    // Properties that a lock guards need no exclusivity checks. An operation takes 104 bytes, including the property that `BlockOperation`
    // adds; glibc's allocator rounds that up to 112. Beyond 120 bytes, freeing would have to take the allocator's lock.

    /// The dependencies in order of addition. Guarded by `lock`.
    @safe @exclusivity(unchecked) var dependencyList = DependencyList()
    /// The dependents in order of addition. Guarded by `dependentsLock`.
    @safe @exclusivity(unchecked) var dependentList = DependentList()
    /// Properties that most operations do not use. Guarded by `lock`.
    @safe @exclusivity(unchecked) var extras: Extras?

    /// Backs `core`. Nil until the operation is added to a queue.
    private let storedCore = unsafe Atomic<UnsafeRawPointer?>(nil)
    /// The links of the queue's list that `queuePosition` names. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var links = OperationLinks()
    /// The operation's sequence number: greater than the number of every operation added to the queue earlier. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var number: UInt32 = 0
    /// Which of the queue's lists holds the operation. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var queuePosition = QueuePosition.outside
    /// Whether the operation is a barrier. Written under the queue's lock before another thread finds the operation in the queue.
    @safe @exclusivity(unchecked) package internal(set) final var isBarrier = false
    /// The rank that the queue's `qualities` count this operation under. Guarded by the queue's lock.
    @safe @exclusivity(unchecked) var countedRank = QualityRank.unspecified
    /// The requested `qualityOfService` and `threadPriority`. See `QualityRank`.
    let requestedQuality = Atomic<UInt8>(0)

    /// Which list of its queue an operation is on.
    struct QueuePosition: Equatable {
        private let value: UInt8

        /// Not in a queue: never added, or already removed.
        static let outside = QueuePosition(value: 0)
        /// On the waiting list: not ready, or posted but not yet moved to the ready list.
        static let waiting = QueuePosition(value: 1)
        /// Like `waiting`, but a dependency was added after the operation was posted.
        static let heldBack = QueuePosition(value: 2)
        /// On the running list: a worker has taken the operation.
        static let taken = QueuePosition(value: 3)
        private static let firstReady: UInt8 = 4

        private init(value: UInt8) { self.value = value }

        @inline(__always) init(readyAt level: UInt8) { value = QueuePosition.firstReady + level }

        @inline(__always) var isReady: Bool { value >= QueuePosition.firstReady }
        /// The priority level the operation has on the ready list. `queuePriority` may have changed since.
        @inline(__always) var level: UInt8 { value - QueuePosition.firstReady }
    }

    /// Creates an operation that does nothing unless a subclass overrides `main`.
    public init() {}

    deinit {
        if !dependencyList.isEmpty { dependencyList.removeAll() }
        if loadState().isAbandoned { ManuallyStartedOperations.end() }
    }

    // MARK: Methods to override

    /// Checks that the operation may start, runs `main` on the calling thread, and finishes the operation. A queue calls this method on one
    /// of its threads.
    ///
    /// A cancelled operation finishes without running `main`. A finished operation is left unchanged. If a subclass's `isFinished` is false
    /// when `main` returns, the operation continues until the subclass announces that it has finished. Traps if the operation is not ready,
    /// is executing, or is in a queue. An override must not call `super.start()`.
    open func start() { startAsDocumented() }

    /// Performs the work. The default implementation does nothing.
    open func main() {}

    /// Requests that the operation stop.
    ///
    /// Does nothing if the operation has finished. Otherwise `isCancelled` becomes true. An operation that has not started becomes ready at
    /// once, whatever its dependencies, so that its queue can finish it without running `main`. An executing operation must check
    /// `isCancelled` itself.
    open func cancel() {
        switch transition({ $0.cancel() }) {
        case .ignored: break
        case .marked: askOutsideOfQueues()
        case .post: postToQueue()
        }
        deliverChanges()
    }

    /// Whether the operation may start, or has already started or finished. O(1) if every dependency has finished; otherwise the getter
    /// searches for an unfinished dependency.
    open var isReady: Bool { loadState().isReady || allDependenciesFinished }

    /// Whether the operation has started and has not finished.
    open var isExecuting: Bool { loadState().has(State.executing) }

    /// Whether the operation has finished, for whatever reason. Changes to true once and stays true.
    open var isFinished: Bool {
        loadState().has(State.finished | State.continuesAfterMain) || isAskedHere
    }

    /// Whether `cancel()` was called before the operation finished.
    open var isCancelled: Bool { loadState().has(State.cancelled) }

    /// Whether the work may continue after `start` has returned. A queue treats both kinds of operation alike.
    open var isAsynchronous: Bool { false }

    /// The older name of `isAsynchronous`.
    open var isConcurrent: Bool { isAsynchronous }

    /// The value of an observable property, looked up by name in either spelling (`isFinished` or `finished`). Nil if the name is unknown
    /// or the property is nil. Override this method to make the values of your own properties visible to observers that use strings.
    open func value(forKey key: String) -> (any Sendable)? { observedValue(ObservedKey(key)) }

    /// The keys whose changes also change the value of `key`. Override this method if a subclass's value depends on other properties that the
    /// subclass announces: an announcement of one of these counts as one of `key`. The default implementation returns an empty set.
    ///
    /// Called on any thread, with no lock held. The engine keeps the answers of each class, which must not change.
    open class func keyPathsForValuesAffectingValue(forKey key: String) -> Set<String> { [] }

    // MARK: Methods that are rarely overridden

    // The module above overrides these methods. They are hidden behind an SPI so that other subclasses may declare methods with the same
    // names.

    /// Called when the operation is about to finish, before any thread can see `isFinished`. The default implementation does nothing.
    ///
    /// Called once, if `tellWhenFinished()` was called before the operation began to finish. Runs on the finishing thread with no lock
    /// held. An override must be cheap.
    @_spi(Subclassing) open func willFinish() {}

    /// Called when an attempt has failed and the `retryPolicy` allows another. Returns whether another attempt follows; true by default.
    ///
    /// Runs on the thread that ends the attempt, with no lock held. The operation may have been cancelled meanwhile, and then finishes.
    @_spi(Subclassing) open func willBeTriedAgain(after error: any Error) -> Bool { true }

    /// Forgets the value of an attempt that is followed by another one. The caller holds `lock`. The default implementation does nothing.
    func forgetValue() {}

    /// Called after the operation has finished and its completion block has returned. The default implementation does nothing.
    ///
    /// Called once if `tellWhenFinished()` was called before the operation finished, and again after later calls of it. Runs on the finishing
    /// thread, or on the thread that makes the later call, with no lock held. An override must be cheap.
    @_spi(Subclassing) open func didFinish() {}

    /// The queue inside, if the operation is a group. Nil by default. Must not change.
    @_spi(Subclassing) open var memberQueue: MemberQueue? { nil }

    /// Cancels a group without its members, which the caller cancels, and returns their queue. Nil, and nothing has happened, if the operation
    /// is no group, or if a subclass overrides `cancel`.
    @_spi(Subclassing) open func cancelWithoutMembers() -> MemberQueue? { nil }

    /// Called when the last member of a group has finished, before the group finishes. The default implementation does nothing.
    ///
    /// Runs on the finishing thread with no lock held.
    @_spi(Subclassing) open func membersHaveFinished(firstFailure member: Operation?) {}

    /// Whether only operations, inbox jobs and callers of `Engine.hold` can finish an operation that continues after `start`. If true, a wait for
    /// the operation fails when none of them is left. If false, which is the default, the wait lasts, because code outside the engine may finish
    /// the operation. Must not change.
    @_spi(Subclassing) open var endsFromWithin: Bool { false }

    /// Whether a subclass is ready apart from its dependencies, that is, the condition its `isReady` adds. True by default. Read by
    /// `whyNotRunning`.
    @_spi(Subclassing) open var isReadyByItself: Bool { true }

    /// The place that is recorded when the operation is added to a queue, and whether it replaces one that was recorded before. See
    /// `recordPlace`. Nil by default. Read with the queue's lock held, so an override must not use the engine.
    @_spi(Subclassing) open var placeToRecord: (text: String, isFinal: Bool)? { nil }

    /// Implements the setter of `completionBlock` and `trySetCompletionBlock`.
    @_spi(Subclassing) open func replaceCompletionBlock(with block: (@Sendable () -> Void)?) throws {
        let replaced = try storeCompletionBlock(block, isRecorded: true)
        deliverChanges()
        withExtendedLifetime(replaced) {}
    }

    /// The operation's name in messages. Nil by default.
    open var name: String? {
        get { storedName }
        set { storedName = newValue }
    }

    /// The operation's priority among the ready operations of its queue. A change takes effect immediately.
    open var queuePriority: QueuePriority {
        get { storedPriority }
        set { storedPriority = newValue }
    }

    /// How important the work is. Determines which threads run the operation, not when it runs: `utility` and `background` work runs on
    /// threads with nice values 5 and 10, all other work on threads with the process's own nice value.
    ///
    /// An operation's quality of service takes precedence over its queue's. A higher one raises the whole queue while the operation is in
    /// it. A change takes effect only before the operation starts. `.default` means unspecified.
    open var qualityOfService: QualityOfService {
        get { requestedQualityOfService }
        set { requestedQualityOfService = newValue }
    }

    /// How much processor time `main` gets relative to other threads, from 0 to 1. The default is 0.5. Values outside the range are
    /// clamped.
    ///
    /// Below 0.25 the operation runs on the threads for `background` work, below 0.5 on those for `utility` work. A `qualityOfService`
    /// takes precedence.
    @available(*, deprecated, message: "use qualityOfService")
    open var threadPriority: Double {
        get { requestedThreadPriority }
        set { requestedThreadPriority = newValue }
    }

    /// The operations that this one depends on, in order of addition. Finished dependencies are included until they are removed. O(n).
    open var dependencies: [Operation] { storedDependencies }

    /// Makes this operation wait until `operation` has finished, whether or not `operation` is in a queue.
    ///
    /// Adding the same dependency again has no effect. An operation that has started does not wait for a dependency added later. Traps if
    /// `operation` is this operation. Accepts a cycle, as Foundation does: its operations wait until one of them is cancelled, or a dependency
    /// removed.
    open func addDependency(_ operation: Operation) {
        guard operation !== self else { trap(OperationError.dependsOnItself(operation: label)) }
        link(to: operation)
    }

    /// Stops waiting for `operation`. If it was the last unfinished dependency, this operation becomes ready. O(n).
    open func removeDependency(_ operation: Operation) { unlink(from: operation) }

    /// A block that runs once after the operation has finished, on an unspecified thread. The operation releases the block before calling
    /// it.
    ///
    /// A block that is set after the operation has finished never runs. Use `trySetCompletionBlock` to detect that.
    open var completionBlock: (@Sendable () -> Void)? {
        get { lock.withLock { extras?.completionBlock }?.call }
        set { try? replaceCompletionBlock(with: newValue) }
    }

    /// Blocks the calling thread until the operation has finished. On a worker, another thread takes over the worker's share of the work;
    /// on the thread of a main queue, that queue's operations run meanwhile.
    ///
    /// Traps if the calling thread is running this operation, or if nothing can end the wait.
    open func waitUntilFinished() {
        do { try tryWaitUntilFinished() } catch { trap(error) }
    }

    // MARK: Identity and description

    /// The class and the address, in the format of Foundation's objects.
    open var description: String { objectDescription(self) }

    /// The same as `description`, unless a subclass overrides it.
    open var debugDescription: String { description }

    /// Whether `object` equals this operation. `==` calls this method. The default implementation compares identity.
    open func isEqual(_ object: Any?) -> Bool { self === object as AnyObject? }

    /// The value that `hash(into:)` feeds to the hasher. Derived from the identity by default. Equal objects must have equal values.
    open var hash: Int { ObjectIdentifier(self).hashValue }

    // MARK: The state word

    @inline(__always)
    func loadState() -> State { State(bits: state.load(ordering: .acquiring)) }

    /// Changes the state word atomically.
    ///
    /// `change` may run more than once and must be pure. If the operation is watched, the change is added to its journal.
    ///
    /// - Parameter core: the queue that the operation joins with this change, if any.
    @inline(__always)
    @discardableResult
    func transition<Action>(
        _ change: (inout State) -> Action, joining core: OperationQueue.Core? = nil
    ) -> Action {
        var old = state.load(ordering: .relaxed)
        while true {
            var new = State(bits: old)
            let action = change(&new)
            // Not `old`: the operation may be recorded from this change on.
            if new.has(State.watched) { return watchedTransition(change, joining: core) }
            let (exchanged, current) = state.weakCompareExchange(
                expected: old, desired: new.bits, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
            if exchanged { return action }
            old = current
        }
    }

    // MARK: The queue

    /// The core of the queue that the operation is in, or was in last. The caller must have seen the `linked` flag.
    @inline(__always)
    var core: Unmanaged<OperationQueue.Core> {
        // Safety: a queue's core outlives the operations in it.
        if let core = unsafe storedCore.load(ordering: .acquiring) { return unsafe .fromOpaque(core) }
        return unsafe awaitedCore
    }

    /// Waits for the thread that has just set `linked` to store the core. That thread needs no lock that the caller could hold.
    @inline(never)
    private var awaitedCore: Unmanaged<OperationQueue.Core> {
        while true {
            // Safety: a queue's core outlives the operations in it.
            if let core = unsafe storedCore.load(ordering: .acquiring) { return unsafe .fromOpaque(core) }
            sched_yield()
        }
    }

    /// Stores the core. Called by the thread that has linked the operation.
    @inline(__always)
    func setCore(_ core: OperationQueue.Core) {
        unsafe storedCore.store(UnsafeRawPointer(Unmanaged.passUnretained(core).toOpaque()), ordering: .releasing)
    }

    /// Posts the operation to its queue. Must be called directly after the transition that returned `.post`, with no user code in between:
    /// only until then is the queue certain to retain the operation.
    @inline(__always)
    func postToQueue() {
        // Safety: `Core.leave` waits for a post that is in flight. This thread retains the core, because the posted operation may run,
        // finish and release its queue before `post` returns.
        let core = unsafe self.core.takeUnretainedValue()
        core.post(self)
    }
}

extension Operation: Hashable, CustomStringConvertible, CustomDebugStringConvertible {
    /// Whether two operations are equal according to `isEqual`: by default, whether they are the same object.
    public static func == (left: Operation, right: Operation) -> Bool { left.isEqual(right) }

    /// Feeds `hash` to the hasher.
    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

/// The description that Foundation gives an object that does not override `description`.
func objectDescription(_ object: AnyObject) -> String {
    // Safety: the address is only printed.
    let address = unsafe UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque())
    return "<\(type(of: object)): 0x\(String(address, radix: 16))>"
}

extension [Operation] {
    /// Cancels all operations in an order in which no cancellation lets another of them start.
    ///
    /// Executing operations come last, because finishing one frees a slot of its queue. Dependents come before their dependencies.
    /// Otherwise the order is reversed. O(n), including the dependencies.
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

    /// The same operations, each after those of them that it depends on, and otherwise in their order.
    private var dependenciesFirst: [Operation] {
        guard contains(where: { !$0.dependencies.isEmpty }) else { return self }
        // Sets of identifiers, because a subclass may declare distinct operations equal.
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
