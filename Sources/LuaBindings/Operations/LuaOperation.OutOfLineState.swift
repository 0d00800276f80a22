import CLua
import Glibc
@_spi(Locking) import OpEngine
import Synchronization

extension LuaOperation {
    /// The state of an operation that is out of line, and the lock that guards it: 64 bytes, one cache line.
    struct OutOfLineState: ~Copyable {
        let lock = Lock()
        var fields: Fields

        @inline(__always)
        static func make(_ fields: consuming Fields) -> UnsafeMutablePointer<OutOfLineState> {
            // Not `allocate`: it asks for an alignment, which makes the allocator slower.
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

    /// What `OutOfLineState` guards. The order of the fields leaves no gaps.
    struct Fields: ~Copyable {
        private var contents: Contents
        var isSealed = false
        var isReadyByItself = true
        /// An asynchronous operation whose body has returned.
        var hasReturned = false
        /// An asynchronous operation that somebody has ended, or is about to.
        var isEnding = false
        var completion: Completion?
        /// The runtime knows that its parcels keep operations.
        var isKeeper = false
        /// `blockCount`; `.max`: the rare part has it.
        private var fewBlocks: UInt8 = 0
        /// Whether its home keeps its handle.
        fileprivate var isPinnedAtHome = false
        fileprivate var rare: Rare?

        /// What it runs, and then what that returned.
        enum Contents {
            /// Empty if they never will run.
            case bodies(SmallArray<Body>)
            /// The bodies have gone. Of blocks one for each, of others one, from when there is one.
            case results(SmallArray<ReturnedValues?>)
        }

        @inline(__always)
        init(bodies: consuming SmallArray<Body>) {
            let count = bodies.count
            contents = .bodies(bodies)
            blockCount = count
        }

        /// The state of an operation that was deferred until now.
        init(deferredWithCompletion hasCompletion: Bool) {
            self.init(bodies: .one(Body(form: .handle)))
            if hasCompletion { completion = Completion(state: .home) }
        }

        /// What `word` says. `body` is the one that the word owned.
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

        /// How many bodies it has been given.
        var blockCount: Int {
            get { fewBlocks < .max ? Int(fewBlocks) : rare?.blockCount ?? 0 }
            set {
                fewBlocks = UInt8(clamping: newValue)
                if fewBlocks == .max { rareInUse.blockCount = newValue }
            }
        }

        var haveBodiesGone: Bool { if case .results = contents { true } else { false } }

        /// None when they have gone, nor does changing them do anything then.
        var bodies: SmallArray<Body> {
            @inline(__always) get { if case .bodies(let bodies) = contents { bodies } else { .empty } }
            @inline(__always) _modify {
                // Moved, not copied.
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

        /// One of the bodies goes elsewhere, if they have not gone; `form` is where it was then. Exchanged, so that no reference is counted.
        mutating func exchangeForm(_ form: inout Body.Form, ofBodyAt index: Int) {
            guard case .bodies(var bodies) = contents, index < bodies.count else { return }
            // Else all would be copied.
            contents = .bodies(.empty)
            switch consume bodies {
            case .one(var body):
                swap(&body.form, &form)
                bodies = .one(body)
            case .several(var several):
                swap(&several[index].form, &form)
                bodies = .several(several)
            case .empty: bodies = .empty
            }
            contents = .bodies(bodies)
        }

        /// Those that the handle has, too.
        var indicesInHandle: SmallArray<Int> {
            switch contents {
            case .bodies(.one(let body)): body.isInHandle ? .one(0) : .empty
            case .bodies(.several(let bodies)): .several(bodies.indices.filter { bodies[$0].isInHandle })
            default: .empty
            }
        }

        /// The bodies, which are about to run: results take their place.
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

        /// Bodies, results and what it stores.
        mutating func dropParcels() -> (Contents, [String: Parcel]) {
            let none = haveBodiesGone ? Contents.results(.empty) : .bodies(.empty)
            return (exchange(&contents, with: none), rare.map { exchange(&$0.storage, with: [:]) } ?? [:])
        }
    }

    /// A state as an operation names it. The one that made the operation is kept anyway, so that for that one no references are counted; its
    /// variables keep the others.
    struct StateReference: Equatable {
        /// Of the object; 0 for the home.
        private let address: UInt

        static let home = StateReference(address: 0)

        static func other(_ state: LuaState) -> StateReference {
            unsafe StateReference(address: UInt(bitPattern: Unmanaged.passUnretained(state).toOpaque()))
        }

        /// Nil: the home.
        fileprivate var unmanaged: Unmanaged<LuaState>? {
            unsafe UnsafeRawPointer(bitPattern: address).map { unsafe Unmanaged.fromOpaque($0) }
        }
    }

    /// `state` as this operation names it.
    @inline(__always)
    func reference(to state: LuaState) -> StateReference { isHome(state) ? .home : .other(state) }

    /// Nil: the host made the operation, which has no home.
    @inline(__always)
    func withState<Result>(_ reference: StateReference, _ body: (LuaState) -> Result) -> Result? {
        // Safety: the out-of-line state keeps it.
        if let other = unsafe reference.unmanaged { return unsafe other._withUnsafeGuaranteedRef(body) }
        return withHome(body)
    }

    /// A completion block that a script has set.
    struct Completion {
        /// Where it runs.
        let state: StateReference
        /// Whether that state knows that it may have to run it: the operation has been added or started.
        var isAwaited = false
        /// The operation has finished, and that state has been told.
        var isPosted = false

        init(state: StateReference, isAwaited: Bool = false, isPosted: Bool = false) {
            (self.state, self.isAwaited, self.isPosted) = (state, isAwaited, isPosted)
        }
    }

    /// What most operations have nothing of.
    fileprivate final class Rare {
        var blockCount = 0
        var storage: [String: Parcel] = [:]
        var observations: [Observation] = []
        var stopReason: StopReason?
        var memoryLimit: Int?
        var timeLimit: TimeLimit?
        var processes: [ChildProcess] = []
        /// Those that keep its handle, besides its home.
        var pinningStates: [StateReference] = []
        /// Those that it names, or has named.
        var states: [LuaState] = []
    }
}

extension LuaOperation.Fields {
    var isObserved: Bool { rare.map { !$0.observations.isEmpty } ?? false }

    /// It has finished: the state of the completion block, if that has not been told; and the other states that keep their handles.
    mutating func takeEnd() -> (completing: LuaOperation.StateReference?, others: [LuaOperation.StateReference]) {
        var others = rare?.pinningStates.filter { $0 != completion?.state } ?? []
        if isPinnedAtHome && completion?.state != .home { others.append(.home) }
        guard completion?.isPosted == false else { return (nil, others) }
        completion?.isPosted = true
        return (completion?.state, others)
    }

    /// The completion block in `state`, if the operation has finished; and whether the state waited for it.
    mutating func takeCompletion(in state: LuaOperation.StateReference) -> (LuaOperation.Due, isAwaited: Bool) {
        guard let completion, completion.state == state else { return (.nothing, false) }
        guard completion.isPosted else { return (.waits, false) }
        self.completion = nil
        return (.completes(isPinned: unpin(in: state)), completion.isAwaited)
    }

    func isPinned(in state: LuaOperation.StateReference) -> Bool {
        state == .home ? isPinnedAtHome : rare?.pinningStates.contains(state) ?? false
    }

    /// Returns whether it was not.
    mutating func pin(in state: LuaOperation.StateReference) -> Bool {
        if isPinned(in: state) { return false }
        if state == .home { isPinnedAtHome = true } else { rareInUse.pinningStates.append(state) }
        keep(state)
        return true
    }

    /// Returns whether it was.
    mutating func unpin(in state: LuaOperation.StateReference) -> Bool {
        guard isPinned(in: state) else { return false }
        if state == .home { isPinnedAtHome = false } else { rareInUse.pinningStates.removeAll { $0 == state } }
        return true
    }

    /// `state` has set the completion block, or none has. Returns what there was.
    mutating func replaceCompletion(by state: LuaOperation.StateReference?) -> LuaOperation.Completion? {
        if let state { keep(state) }
        return exchange(&completion, with: state.map { LuaOperation.Completion(state: $0) })
    }

    private mutating func keep(_ state: LuaOperation.StateReference) {
        // Safety: the caller has it.
        guard let other = unsafe state.unmanaged?.takeUnretainedValue() else { return }
        if !rareInUse.states.contains(where: { $0 === other }) { rareInUse.states.append(other) }
    }

    private var rareInUse: LuaOperation.Rare {
        mutating get {
            if let rare { return rare }
            let made = LuaOperation.Rare()
            rare = made
            return made
        }
    }

    var storage: [String: Parcel] {
        get { rare?.storage ?? [:] }
        _modify { yield &rareInUse.storage }
    }

    var observations: [Observation] {
        get { rare?.observations ?? [] }
        _modify { yield &rareInUse.observations }
    }

    var stopReason: StopReason? {
        get { rare?.stopReason }
        set { rareInUse.stopReason = newValue }
    }

    var memoryLimit: Int? {
        get { rare?.memoryLimit }
        set { rareInUse.memoryLimit = newValue }
    }

    var timeLimit: TimeLimit? {
        get { rare?.timeLimit }
        set { rareInUse.timeLimit = newValue }
    }

    /// That it has started, and that are running.
    var processes: [ChildProcess] {
        get { rare?.processes ?? [] }
        _modify { yield &rareInUse.processes }
    }
}
