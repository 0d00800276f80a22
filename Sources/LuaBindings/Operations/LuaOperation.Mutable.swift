import CLua
import Glibc
import OpEngine

extension LuaOperation {
    /// What operations that are made alike have in common.
    @safe final class Origin: Sendable {
        let core: RuntimeCore
        /// The number of the state that makes them; `LuaState.noNumber` when the host does.
        let home: Int
        let kind: Kind
        let isAsynchronous: Bool
        /// The class that a script has defined, if they are of one.
        let scriptClass: ScriptClass?
        /// The body of each, of the host's alone. A light one, which is no matter to keep for as long as any of them is there.
        let body: Parcel?
        /// What C reads of it.
        // Safety: immutable, and there as long as `body`.
        nonisolated(unsafe) let bodyPointer: UnsafePointer<clua_parcel>?

        init(core: RuntimeCore, home: Int, kind: Kind, scriptClass: ScriptClass? = nil, body: Parcel? = nil) {
            self.core = core
            self.home = home
            self.kind = kind
            isAsynchronous = kind == .asynchronous || kind == .asynchronousInstance
            self.scriptClass = scriptClass
            self.body = body
            unsafe bodyPointer = body?.pointer
        }

        /// What they have to run at first.
        var bodies: SmallArray<Body> { body.map { .one(Body(form: .parcel($0), isInHandle: false)) } ?? .empty }
    }

    /// What changes, and the lock that guards it.
    struct Variables: ~Copyable {
        let lock = Lock()
        var mutable: Mutable

        @inline(__always)
        private init(_ bodies: SmallArray<Body>, _ results: SmallArray<ReturnedValues?>) {
            mutable = Mutable(bodies: bodies, results: results)
        }

        @inline(__always)
        static func make(_ bodies: SmallArray<Body>, _ results: SmallArray<ReturnedValues?> = .empty) -> UnsafeMutablePointer<Variables> {
            // Not `allocate`, which asks for an alignment, and that takes time.
            guard let block = unsafe malloc(MemoryLayout<Variables>.size) else { fatalError("opscript: out of memory") }
            let made = unsafe block.assumingMemoryBound(to: Variables.self)
            unsafe made.initialize(to: Variables(bodies, results))
            return unsafe made
        }

        static func destroy(_ variables: UnsafeMutablePointer<Variables>) {
            unsafe variables.deinitialize(count: 1)
            unsafe free(variables)
        }
    }

    /// See `Variables`. No more than 120 bytes with those: see `LuaOperation`.
    struct Mutable: ~Copyable {
        /// Empty once they run, or never will.
        var bodies: SmallArray<Body>
        private var countOfBlocks: Int32
        var haveBodiesGone = false
        var isSealed = false
        var isReadyByItself = true
        /// An asynchronous operation whose body has returned.
        var hasReturned = false
        /// An asynchronous operation that somebody has ended, or is about to.
        var isEnding = false
        /// The runtime knows that its parcels keep operations.
        var isKeeper = false
        /// What it ended with: of blocks, one for each.
        var results: SmallArray<ReturnedValues?> = .empty
        var completion: Completion?
        /// The states that keep their handles alive: its own, where it runs as it is, and that of the completion block.
        var pinningStates: SmallArray<LuaState> = .empty
        fileprivate var rare: Rare?

        @inline(__always)
        init(bodies: SmallArray<Body>, results: SmallArray<ReturnedValues?>) {
            self.bodies = bodies
            self.results = results
            countOfBlocks = Int32(bodies.count)
        }

        var blockCount: Int {
            get { Int(countOfBlocks) }
            set { countOfBlocks = Int32(newValue) }
        }
    }

    /// What most operations have nothing of.
    fileprivate final class Rare {
        var storage: [String: Parcel] = [:]
        var observations: [Observation] = []
        var stopReason: StopReason?
        var memoryLimit: Int?
        var timeLimit: TimeLimit?
        var processes: [ChildProcess] = []
    }
}

extension LuaOperation.Mutable {
    var isObserved: Bool { rare.map { !$0.observations.isEmpty } ?? false }

    /// Of several bodies each has a place, of one there is none before.
    mutating func setResults(_ returned: ReturnedValues, ofBodyAt index: Int) {
        if results.isEmpty { results = .one(returned) } else { results[index] = returned }
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

extension SmallArray<LuaOperation.Body> {
    /// Those that the handle has, too.
    var indicesInHandle: SmallArray<Int> {
        switch self {
        case .empty: .empty
        case .one(let body): body.isInHandle ? .one(0) : .empty
        case .several(let bodies): .several(bodies.indices.filter { bodies[$0].isInHandle })
        }
    }
}
