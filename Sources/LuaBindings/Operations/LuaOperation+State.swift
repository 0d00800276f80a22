@_spi(Subclassing) import OpEngine
import OpPlatform
import Synchronization

/// The state of an operation.
///
/// It takes one of three forms. An operation moves down this list and never up:
///
/// | form | where the state is | who may change it |
/// |---|---|---|
/// | deferred | In the handle: the function, its arguments, the completion block. There is no `LuaOperation`. | The state's thread. |
/// | inline | In `stateWord`: one body or a few results, and whether there is a completion block. | Any thread, with `changeInline`. |
/// | out of line | In an `OutOfLineState`, whose address is `stateWord`. | Any thread, with its lock: `withFields`. |
///
/// - Deferred becomes inline when the operation is added to a queue (`addDeferredOperation`), and out of line when a script or the host
///   asks for anything else.
/// - Inline becomes out of line when a caller needs a field for which the word has no room (`moveOutOfLine`).
///
/// Most operations of a script are made, added, run and finished without an `OutOfLineState` and its lock. The functions here work with both the
/// inline and the out-of-line form.
extension LuaOperation {
    /// Moves the state out of line if necessary, and calls `body` with the fields while the lock is held.
    @inline(__always)
    func withFields<Result>(_ body: (inout Fields) -> Result) -> Result {
        let outOfLine = unsafe stateWord.load(ordering: .acquiring).outOfLine ?? moveOutOfLine()
        // Safety: the operation owns its state until it is deallocated.
        return unsafe outOfLine._withUnsafeGuaranteedRef { $0.withLock(body) }
    }

    /// Like `withFields`, but returns nil if the state is inline.
    @inline(__always)
    func ifOutOfLine<Result>(_ body: (inout Fields) -> Result) -> Result? {
        // Safety: as above.
        unsafe stateWord.load(ordering: .acquiring).outOfLine?._withUnsafeGuaranteedRef { $0.withLock(body) }
    }

    /// Reads a rare property; nil if the operation has none.
    func rare<Value>(_ read: (Rare) -> Value?) -> Value? { ifOutOfLine { $0.rare.flatMap(read) } ?? nil }

    var isInline: Bool { stateWord.load(ordering: .acquiring).isInline }

    /// Whether the bodies are still those of the origin, and nothing else was stored.
    @inline(__always)
    var isUnchanged: Bool { stateWord.load(ordering: .acquiring) == .nothing }

    /// Takes the body out of an inline state; nil if there is none, or the state is out of line.
    @inline(__always)
    func takeInlineBody() -> Parcel? {
        // Safety: the word owned a reference to the body.
        unsafe (changeInline { unsafe $0.takeBody() } ?? nil).map { unsafe Parcel(taking: $0) }
    }

    /// Releases the bodies, because they will never run.
    func dropBodies() {
        let body = takeInlineBody(), bodies = ifOutOfLine { $0.changeBodies { exchange(&$0, with: .empty) } }
        withExtendedLifetime((body, bodies)) {}
        dropFunctions()
    }

    /// Releases the functions that only another attempt would need, and the conditions.
    func dropFunctions() {
        let dropped = ifOutOfLine { $0.dropFunctions() }
        withExtendedLifetime(dropped) {}
    }

    /// Stores the results of a body.
    @inline(__always)
    func setResults(_ results: ReturnedValues, ofBodyAt index: Int) {
        if changeInline({ $0.setResults(results) }) ?? false { return }
        withFields { $0.setResults(results, ofBodyAt: index) }
    }

    /// The results of the bodies so far.
    var storedResults: SmallArray<ReturnedValues?> {
        stateWord.load(ordering: .acquiring).results.map { .one($0) } ?? ifOutOfLine { $0.results } ?? .empty
    }

    /// The completion block that a script has set; nil if there is none.
    @inline(__always)
    var completion: Completion? {
        let word = stateWord.load(ordering: .acquiring)
        return word.isInline ? word.completion : withFields { $0.completion }
    }

    /// Takes the completion block of a Lua state if the operation has finished.
    @inline(__always)
    func takeCompletion(at place: Place) -> Due {
        let taken = changeInline { word -> Due in
            guard word.hasCompletion else { return .nothing }
            guard word.isPosted else { return .waits }
            word.dropCompletion()
            return .completes(isPinned: true)  // the handle is pinned for the completion block
        }
        return taken ?? withFields { $0.takeCompletion(at: place) }
    }

    /// Records the end. Returns the Lua state that has the completion block, if that state was not told of the end yet, and the other Lua states that
    /// keep a handle.
    @inline(__always)
    func takeEnd() -> (completing: Place?, others: [Place]) {
        let taken = changeInline { word -> (completing: Place?, others: [Place]) in
            guard word.hasCompletion, !word.isPosted else { return (nil, []) }
            word.post()
            return (.home, [])
        }
        return taken ?? withFields { $0.takeEnd() }
    }

    // MARK: the two forms

    /// Changes an inline state in one atomic step. Returns nil, and changes nothing, if the state is out of line. `change` may run more
    /// than once and must be pure.
    @inline(__always)
    private func changeInline<Result>(_ change: (inout StateWord) -> Result) -> Result? {
        var old = stateWord.load(ordering: .acquiring)
        while old.isInline {
            var new = old
            let result = change(&new)
            if new == old { return result }
            let (exchanged, current) = stateWord.weakCompareExchange(
                expected: old, desired: new, successOrdering: .acquiringAndReleasing, failureOrdering: .acquiring)
            if exchanged { return result }
            old = current
        }
        return nil
    }

    /// Moves the state out of line, unless another thread has done so.
    @inline(never)
    private func moveOutOfLine() -> Unmanaged<OutOfLineState> {
        let made = OutOfLineState(Fields(bodies: .empty))
        // The lock is held until the object has taken over what the word owned. After the exchange, no other thread reads the body of the
        // old word.
        return unsafe made.withLock { fields in
            var old = stateWord.load(ordering: .acquiring)
            while true {
                if let outOfLine = unsafe old.outOfLine { return unsafe outOfLine }
                let (exchanged, current) = stateWord.compareExchange(
                    expected: old, desired: unsafe StateWord(.passUnretained(made)), ordering: .acquiringAndReleasing)
                if exchanged { break }
                old = current
            }
            fields =
                old == .nothing ? Fields(bodies: origin.bodies) : Fields(of: old, body: unsafe old.body.map { unsafe Parcel(taking: $0) })
            return unsafe .passRetained(made)
        }
    }
}

extension LuaOperation {
    /// The state of an operation out of line, and its lock: 72 bytes.
    final class OutOfLineState {
        private let lock = Lock()
        // The lock guards the fields.
        @safe @exclusivity(unchecked) private var fields: Fields

        init(_ fields: consuming Fields) { self.fields = fields }

        @inline(__always)
        func withLock<Result>(_ body: (inout Fields) -> Result) -> Result {
            lock.lock()
            defer { lock.unlock() }
            return body(&fields)
        }
    }

    /// The fields that the lock of `OutOfLineState` guards. The order leaves no gaps.
    struct Fields {
        private var contents: Contents
        /// Whether a reference to the operation has left its Lua state before the operation was in a queue. Another Lua state may then add the
        /// operation.
        var isSealed = false
        var isReadyByItself = true
        /// Whether the body of an asynchronous operation has returned.
        var hasReturned = false
        /// Whether the end of an asynchronous operation is claimed.
        var isEnding = false
        var completion: Completion?
        /// Whether the runtime knows that the operation's parcels keep operations.
        var isKeeper = false
        /// Whether the home state keeps the handle.
        private var isPinnedAtHome = false
        /// The number of blocks that were added to the operation.
        var blockCount: UInt32
        private(set) var rare: Rare?

        /// Like `rare`, which is made if there is none.
        var rareInUse: Rare {
            mutating get {
                if rare == nil { rare = Rare() }
                return rare!
            }
        }

        /// The bodies until they are taken, and the results from then on.
        enum Contents {
            /// The bodies; empty if they will never run.
            case bodies(SmallArray<Body>)
            /// The results, after the bodies were taken. Blocks have one element each; other kinds have one as soon as a result exists.
            case results(SmallArray<ReturnedValues?>)
        }

        @inline(__always)
        init(bodies: consuming SmallArray<Body>) {
            blockCount = UInt32(bodies.count)
            contents = .bodies(bodies)
        }

        /// Makes the fields from an inline word. `body` is the body that the word owned.
        init(of word: StateWord, body: Parcel?) {
            self.init(bodies: body.map { .one(word.isInHandle ? .copy($0) : .parcel($0)) } ?? .empty)
            if body == nil { contents = .results(word.results.map { .one($0) } ?? .empty) }
            completion = word.completion
            isPinnedAtHome = word.hasCompletion
        }

        // MARK: bodies and results

        /// The bodies; empty when they are gone.
        var bodies: SmallArray<Body> { if case .bodies(let bodies) = contents { bodies } else { .empty } }

        var areBodiesTaken: Bool { if case .results = contents { true } else { false } }

        /// Changes the bodies, unless they are gone. They are moved out meanwhile, so that a change copies no array.
        @discardableResult
        mutating func changeBodies<Result>(_ change: (inout SmallArray<Body>) -> Result) -> Result? {
            guard !areBodiesTaken, case .bodies(var bodies) = exchange(&contents, with: .bodies(.empty)) else { return nil }
            defer { contents = .bodies(bodies) }
            return change(&bodies)
        }

        /// Replaces a body, unless the bodies are gone. Returns the former one, to be released outside of the lock.
        mutating func replaceBody(at index: Int, by body: Body) -> Body? {
            changeBodies { bodies in index < bodies.count ? exchange(&bodies[index], with: body) : nil } ?? nil
        }

        /// Makes each body that is also in the handle run from there. Returns whether there are any.
        @discardableResult
        mutating func useHandle() -> Bool {
            var isUsed = false
            changeBodies { bodies in
                for index in bodies.indices where bodies[index].isInHandle { (bodies[index], isUsed) = (.handle, true) }
            }
            return isUsed
        }

        /// Takes the bodies, which are about to run. Results take their place.
        mutating func takeBodies() -> SmallArray<Body> {
            guard case .bodies(let bodies) = contents else { return .empty }
            contents = .results(bodies.count > 1 ? SmallArray(repeating: nil, count: bodies.count) : .empty)
            return bodies
        }

        /// Puts back the bodies that were kept for another attempt, in place of results.
        mutating func restoreBodies() { if let kept = rare?.bodies { contents = .bodies(kept) } }

        var results: SmallArray<ReturnedValues?> { if case .results(let results) = contents { results } else { .empty } }

        mutating func setResults(_ returned: ReturnedValues, ofBodyAt index: Int) {
            guard case .results(.several(var results)) = exchange(&contents, with: .results(.empty)) else {
                return contents = .results(.one(returned))
            }
            results[index] = returned
            contents = .results(.several(results))
        }

        mutating func setAllResults(_ results: SmallArray<ReturnedValues?>) { contents = .results(results) }

        /// Removes the functions of conditions and retries, and the bodies that were kept, and returns them for release outside of the lock.
        mutating func dropFunctions() -> (SmallArray<Body>?, [Parcel], Parcel?) {
            guard let rare else { return (nil, [], nil) }
            return (rare.bodies.take(), exchange(&rare.conditions, with: []), rare.retriesWhen.take())
        }

        /// Removes all parcels, and returns them for release outside of the lock.
        mutating func dropParcels() -> (Contents, [String: Parcel], (SmallArray<Body>?, [Parcel], Parcel?)) {
            let none = areBodiesTaken ? Contents.results(.empty) : .bodies(.empty)
            return (exchange(&contents, with: none), rare.map { exchange(&$0.storage, with: [:]) } ?? [:], dropFunctions())
        }

        // MARK: pins and completion

        /// See `LuaOperation.takeEnd`.
        mutating func takeEnd() -> (completing: Place?, others: [Place]) {
            var others = rare?.pins.filter { $0 != completion?.place } ?? []
            if isPinnedAtHome && completion?.place != .home { others.append(.home) }
            guard completion?.isPosted == false else { return (nil, others) }
            completion?.isPosted = true
            return (completion?.place, others)
        }

        /// See `LuaOperation.takeCompletion`.
        mutating func takeCompletion(at place: Place) -> Due {
            guard let completion, completion.place == place else { return .nothing }
            guard completion.isPosted else { return .waits }
            self.completion = nil
            return .completes(isPinned: unpin(at: place))
        }

        func isPinned(at place: Place) -> Bool { place == .home ? isPinnedAtHome : rare?.pins.contains(place) ?? false }

        /// Returns whether the handle was not pinned before.
        mutating func pin(at place: Place) -> Bool {
            if isPinned(at: place) { return false }
            if place == .home { isPinnedAtHome = true } else { rareInUse.pins.append(place) }
            return true
        }

        /// Returns whether the handle was pinned before.
        mutating func unpin(at place: Place) -> Bool {
            guard isPinned(at: place) else { return false }
            if place == .home { isPinnedAtHome = false } else { rare?.pins.removeAll { $0 == place } }
            return true
        }

        var observations: [Observation] { rare?.observations ?? [] }
    }

    /// A Lua state that keeps values for an operation. Every operation keeps its home state anyway, so naming the home state needs no reference.
    enum Place: Equatable {
        case home
        case other(LuaState)

        static func == (left: Place, right: Place) -> Bool {
            switch (left, right) {
            case (.home, .home): true
            case (.other(let left), .other(let right)): left === right
            default: false
            }
        }
    }

    /// A completion block that a script has set.
    struct Completion {
        /// The state that runs it.
        let place: Place
        /// Whether the operation has finished and has told that state.
        var isPosted = false
    }

    /// The properties that most operations do not use.
    final class Rare {
        var storage: [String: Parcel] = [:]
        var observations: [Observation] = []
        var stopReason: StopReason?
        /// Whether the stop is repeated until the body has ended.
        var isBeingStopped = false
        var memoryLimit: Int?
        var timeLimit: TimeLimit?
        var budget: RunBudget?
        /// The running processes that the operation has started.
        var processes: [ChildProcess] = []
        /// How the last one of them that failed has ended: `'grep -q x' exited with status 1`.
        var failedProgram: String?
        /// The queue of a group's members.
        var memberQueue: MemberQueue?
        /// The functions of conditions, in the order in which they were added.
        var conditions: [Parcel] = []
        /// The function that decides whether another attempt follows an error.
        var retriesWhen: Parcel?
        /// Whether a cluster runs this attempt, and another attempt may follow it.
        var isTriedAgainElsewhere = false
        /// The bodies of an operation that may be tried again, while it runs and until the next attempt.
        var bodies: SmallArray<Body>?
        /// The operation's question to the store.
        var step: StoredStep?
        /// The task of the operation on a cluster, while it executes there.
        var ticket: ClusterTicket?
        /// The files that the body writes under temporary names.
        var newOutputs = NewOutputs()
        /// The failure of the last attempt. The failure counts if no other attempt follows.
        var failure: OperationFailure?
        /// Whether no code will ask for the failure.
        var isFailureDismissed = false
        /// The states that keep the handle, besides the home state.
        var pins: [Place] = []
        /// The parts of the runtime's ledger that this operation owns, besides those of its parcels.
        var charges: [Kept: Charge?] = [:]

        /// Counts one more, or one less, of the things of a kind.
        func count(_ kind: Kept, _ bytes: Int, adding: Bool, in ledger: Ledger) {
            let one = kind.bytes + bytes
            guard let charge = charges[kind] ?? nil else {
                if adding { charges[kind] = Charge(kind, bytes, in: ledger) }
                return
            }
            charge.change(to: max(-kind.bytes, charge.count + (adding ? one : -one)))
        }
    }
}
