import CLua
import Glibc
@_spi(Subclassing) import OpEngine
import OpPlatform
import Synchronization

extension LuaOperation {
    /// The out-of-line state of an operation and its lock: 64 bytes, one cache line.
    struct OutOfLineState: ~Copyable {
        let lock = Lock()
        private var fields: Fields

        /// Where `fields` begins.
        private static let fieldsOffset = (MemoryLayout<Lock>.size + MemoryLayout<Fields>.alignment - 1) & -MemoryLayout<Fields>.alignment

        /// The fields of `outOfLine`; the caller holds the lock. Not `outOfLine.pointee.fields`: that is an access to the whole structure, which
        /// ThreadSanitizer reports against a thread that tries the lock meanwhile.
        @inline(__always)
        static func fields(of outOfLine: UnsafeMutablePointer<OutOfLineState>) -> UnsafeMutablePointer<Fields> {
            // Safety: `fields` is the second of two stored properties, and begins where its alignment allows.
            unsafe (UnsafeMutableRawPointer(outOfLine) + fieldsOffset).assumingMemoryBound(to: Fields.self)
        }

        @inline(__always)
        static func make(_ fields: consuming Fields) -> UnsafeMutablePointer<OutOfLineState> {
            // Not `allocate`: it passes an alignment, which takes the allocator's slower path.
            guard let block = unsafe malloc(MemoryLayout<OutOfLineState>.size) else { fatalError("opscript: out of memory") }
            let made = unsafe block.assumingMemoryBound(to: OutOfLineState.self)
            unsafe made.initialize(to: OutOfLineState(fields: fields))
            return unsafe made
        }

        static func destroy(_ outOfLine: UnsafeMutablePointer<OutOfLineState>) {
            unsafe outOfLine.deinitialize(count: 1)
            unsafe free(outOfLine)
        }
    }

    /// The fields that the lock of `OutOfLineState` guards. Their order leaves no gaps.
    struct Fields: ~Copyable {
        private var contents: Contents
        /// Whether the operation has left its state by reference before it was in a queue, so that another state may add it.
        var isSealed = false
        var isReadyByItself = true
        /// Whether the body of an asynchronous operation has returned.
        var hasReturned = false
        /// Whether somebody has ended an asynchronous operation, or is about to.
        var isEnding = false
        var completion: Completion?
        /// Whether the runtime knows that the operation's parcels keep operations.
        var isKeeper = false
        /// The value of `blockCount`; `.max` if `rare` holds it.
        private var fewBlocks: UInt8 = 0
        /// Whether the home state keeps the handle.
        fileprivate var isPinnedAtHome = false
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
            /// Empty if they will never run.
            case bodies(SmallArray<Body>)
            /// The bodies are gone. Blocks have one element each; other kinds have one as soon as there is a result.
            case results(SmallArray<ReturnedValues?>)
        }

        @inline(__always)
        init(bodies: consuming SmallArray<Body>) {
            let count = bodies.count
            contents = .bodies(bodies)
            blockCount = count
        }

        /// Makes the state of an operation that was deferred until now.
        init(deferredWithCompletion hasCompletion: Bool) {
            self.init(bodies: .one(Body(form: .handle)))
            if hasCompletion { completion = Completion(state: .home) }
        }

        /// Makes the fields from an inline word. `body` is the body that the word owned.
        init(of word: StateWord, body: Parcel?) {
            if let body {
                contents = .bodies(.one(Body(form: .parcel(body), isInHandle: word.isInHandle)))
            } else {
                contents = .results(word.results.map { .one($0) } ?? .empty)
            }
            if word.hasCompletion {
                completion = Completion(state: .home, isAwaited: true, isPosted: word.isPosted)
                isPinnedAtHome = true
            }
        }

        /// The number of blocks that were added to the operation.
        var blockCount: Int {
            get { fewBlocks < .max ? Int(fewBlocks) : rare?.blockCount ?? 0 }
            set {
                fewBlocks = UInt8(clamping: newValue)
                if fewBlocks == .max { rareInUse.blockCount = newValue }
            }
        }

        var areBodiesTaken: Bool { if case .results = contents { true } else { false } }

        /// The bodies; empty when they are gone, and then changes have no effect.
        var bodies: SmallArray<Body> {
            @inline(__always) get { if case .bodies(let bodies) = contents { bodies } else { .empty } }
            @inline(__always) _modify {
                // Moved out of `contents`, so that changing them does not copy the array.
                switch exchange(&contents, with: .bodies(.empty)) {
                case .bodies(var bodies):
                    defer { contents = .bodies(bodies) }
                    yield &bodies
                case .results(let results):
                    contents = .results(results)
                    var none = SmallArray<Body>.empty
                    yield &none
                }
            }
        }

        /// Exchanges the form of one body with `form`, unless the bodies are gone.
        mutating func exchangeForm(_ form: inout Body.Form, ofBodyAt index: Int) {
            if index < bodies.count { swap(&bodies[index].form, &form) }
        }

        /// The indices of the bodies that the handle also holds.
        var indicesInHandle: SmallArray<Int> {
            switch contents {
            case .bodies(.one(let body)): body.isInHandle ? .one(0) : .empty
            case .bodies(.several(let bodies)): .several(bodies.indices.filter { bodies[$0].isInHandle })
            default: .empty
            }
        }

        /// Takes the bodies, which are about to run. Results take their place.
        mutating func takeBodies() -> SmallArray<Body> {
            switch exchange(&contents, with: .results(.empty)) {
            case .bodies(let bodies):
                if bodies.count > 1 { contents = .results(SmallArray(repeating: nil, count: bodies.count)) }
                return bodies
            case .results(let results):
                contents = .results(results)
                return .empty
            }
        }

        var results: SmallArray<ReturnedValues?> {
            if case .results(let results) = contents { results } else { .empty }
        }

        mutating func setResults(_ returned: ReturnedValues, ofBodyAt index: Int) {
            guard case .results(.several(var results)) = contents else { return contents = .results(.one(returned)) }
            contents = .results(.empty)
            results[index] = returned
            contents = .results(.several(results))
        }

        mutating func setAllResults(_ results: SmallArray<ReturnedValues?>) { contents = .results(results) }

        /// Puts back the bodies that were kept for another attempt, in place of results.
        mutating func restoreBodies() { if let kept = rare?.bodies { contents = .bodies(kept) } }

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
    }

    /// A Lua state as an operation refers to it. Every operation keeps its home state anyway, so naming that one needs no reference.
    /// `Rare.states` keeps the others.
    struct StateReference: Equatable {
        /// The address of the object; 0 for the home state.
        private let address: UInt

        static let home = StateReference(address: 0)

        static func other(_ state: LuaState) -> StateReference {
            unsafe StateReference(address: UInt(bitPattern: Unmanaged.passUnretained(state).toOpaque()))
        }

        /// Nil for the home state.
        fileprivate var unmanaged: Unmanaged<LuaState>? {
            unsafe UnsafeRawPointer(bitPattern: address).map { unsafe Unmanaged.fromOpaque($0) }
        }
    }

    /// How this operation refers to `state`.
    @inline(__always)
    func reference(to state: LuaState) -> StateReference { isHome(state) ? .home : .other(state) }

    /// Calls `body` with the state; nil if that is the home state of an operation that the host made.
    @inline(__always)
    func withState<Result>(_ reference: StateReference, _ body: (LuaState) -> Result) -> Result? {
        // Safety: `Rare.states` of the out-of-line state keeps it alive.
        if let other = unsafe reference.unmanaged { return unsafe other._withUnsafeGuaranteedRef(body) }
        return withHome(body)
    }

    /// A completion block that a script has set.
    struct Completion {
        /// The state that runs it.
        let state: StateReference
        /// Whether `state` awaits this completion block, because the operation has been added or started.
        var isAwaited = false
        /// Whether the operation has finished and that state has been told.
        var isPosted = false

        init(state: StateReference, isAwaited: Bool = false, isPosted: Bool = false) {
            (self.state, self.isAwaited, self.isPosted) = (state, isAwaited, isPosted)
        }
    }

    /// The properties that most operations do not use.
    final class Rare {
        var blockCount = 0
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
        /// The queue of a group's members.
        var memberQueue: MemberQueue?
        /// The functions of conditions, in the order in which they were added.
        var conditions: [Parcel] = []
        /// The function that says whether an error is worth another attempt.
        var retriesWhen: Parcel?
        /// Whether this is an attempt of a cluster's operation after which there may be another one.
        var isTriedAgainElsewhere = false
        /// The bodies of an operation that may be tried again, while it runs and until the next attempt.
        var bodies: SmallArray<Body>?
        /// What the operation asks the store.
        var step: StoredStep?
        /// What the operation is on a cluster, while it executes there.
        var ticket: ClusterTicket?
        /// The failure of the last attempt, which counts when the operation finishes with it.
        var failure: OperationFailure?
        /// The states that keep the handle, besides the home state.
        var pinningStates: [StateReference] = []
        /// The states that this operation refers to, or has referred to. Keeps them alive.
        var states: [LuaState] = []
    }
}

extension LuaOperation.Fields {
    var isObserved: Bool { rare.map { !$0.observations.isEmpty } ?? false }

    /// See `LuaOperation.takeEnd`.
    mutating func takeEnd() -> (completing: LuaOperation.StateReference?, others: [LuaOperation.StateReference]) {
        var others = rare?.pinningStates.filter { $0 != completion?.state } ?? []
        if isPinnedAtHome && completion?.state != .home { others.append(.home) }
        guard completion?.isPosted == false else { return (nil, others) }
        completion?.isPosted = true
        return (completion?.state, others)
    }

    /// See `LuaOperation.takeCompletion`.
    mutating func takeCompletion(in state: LuaOperation.StateReference) -> (LuaOperation.Due, isAwaited: Bool) {
        guard let completion, completion.state == state else { return (.nothing, false) }
        guard completion.isPosted else { return (.waits, false) }
        self.completion = nil
        return (.completes(isPinned: unpin(in: state)), completion.isAwaited)
    }

    func isPinned(in state: LuaOperation.StateReference) -> Bool {
        state == .home ? isPinnedAtHome : rare?.pinningStates.contains(state) ?? false
    }

    /// Returns whether it was not pinned before.
    mutating func pin(in state: LuaOperation.StateReference) -> Bool {
        if isPinned(in: state) { return false }
        if state == .home { isPinnedAtHome = true } else { rareInUse.pinningStates.append(state) }
        keep(state)
        return true
    }

    /// Returns whether it was pinned before.
    mutating func unpin(in state: LuaOperation.StateReference) -> Bool {
        guard isPinned(in: state) else { return false }
        if state == .home { isPinnedAtHome = false } else { rareInUse.pinningStates.removeAll { $0 == state } }
        return true
    }

    /// Records that `state` has set the completion block, or that there is none. Returns the previous one.
    mutating func replaceCompletion(by state: LuaOperation.StateReference?) -> LuaOperation.Completion? {
        if let state { keep(state) }
        return exchange(&completion, with: state.map { LuaOperation.Completion(state: $0) })
    }

    private mutating func keep(_ state: LuaOperation.StateReference) {
        // Safety: the caller or `Rare.states` keeps the state alive.
        guard let other = unsafe state.unmanaged?.takeUnretainedValue() else { return }
        if !rareInUse.states.contains(where: { $0 === other }) { rareInUse.states.append(other) }
    }

    var observations: [Observation] {
        get { rare?.observations ?? [] }
        _modify { yield &rareInUse.observations }
    }
}
