import CLua
import Glibc
@_spi(Locking) import OpEngine
import Synchronization

extension LuaOperation {
    /// What operations that are made alike have in common.
    @safe final class Origin: Sendable {
        // The thread that makes them changes the count of references, the others read what follows: not in one line of memory.
        private let gap = InlineArray<6, UInt>(repeating: 0)
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

    /// What an operation has beside its origin, in a word: nothing at first; the results of its body alone, where they are seven bytes at
    /// most; the address of its variables, from then on.
    struct Content: Equatable, AtomicRepresentable {
        private let bits: UInt

        static let nothing = Content(bits: 0)

        private init(bits: UInt) { self.bits = bits }

        init(_ variables: UnsafeMutablePointer<Variables>) { bits = UInt(bitPattern: variables) }

        /// Nil: there are more.
        @inline(__always)
        init?(_ results: ReturnedValues) {
            guard case .few(let few) = results, few.byteCount < 8, few.valueCount < 16 else { return nil }
            bits = UInt(few.bytes.0) << 8 | UInt(few.valueCount) << 4 | UInt(few.byteCount) << 1 | 1
        }

        @inline(__always) var variables: UnsafeMutablePointer<Variables>? {
            bits & 1 == 0 ? unsafe UnsafeMutablePointer(bitPattern: bits) : nil
        }

        @inline(__always) var results: ReturnedValues? {
            if bits & 1 == 0 { return nil }
            return .few(
                ReturnedValues.Few(bytes: (UInt64(bits >> 8), 0, 0), byteCount: UInt8(bits >> 1 & 7), valueCount: UInt8(bits >> 4 & 15)))
        }

        typealias AtomicRepresentation = UInt.AtomicRepresentation

        static func encodeAtomicRepresentation(_ content: consuming Content) -> AtomicRepresentation {
            UInt.encodeAtomicRepresentation(content.bits)
        }

        static func decodeAtomicRepresentation(_ stored: consuming AtomicRepresentation) -> Content {
            Content(bits: UInt.decodeAtomicRepresentation(stored))
        }
    }

    /// What changes, and the lock that guards it.
    struct Variables: ~Copyable {
        let lock = Lock()
        var mutable: Mutable

        @inline(__always)
        private init(_ bodies: consuming SmallArray<Body>, _ results: SmallArray<ReturnedValues?>) {
            mutable = Mutable(bodies: bodies, results: results)
        }

        @inline(__always)
        static func make(_ bodies: consuming SmallArray<Body>, _ results: SmallArray<ReturnedValues?> = .empty) -> UnsafeMutablePointer<
            Variables
        > {
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

    /// See `Variables`. 96 bytes with those, in an order that leaves no gaps.
    struct Mutable: ~Copyable {
        /// Empty once they run, or never will.
        var bodies: SmallArray<Body>
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
        private var countOfBlocks: Int32
        var completion: Completion?
        /// The states that keep their handles alive: its own, where it runs as it is, and that of the completion block.
        var pinningStates: SmallArray<LuaState> = .empty
        fileprivate var rare: Rare?

        @inline(__always)
        init(bodies: consuming SmallArray<Body>, results: SmallArray<ReturnedValues?>) {
            countOfBlocks = Int32(bodies.count)
            self.bodies = bodies
            self.results = results
        }

        var blockCount: Int {
            get { Int(countOfBlocks) }
            set { countOfBlocks = Int32(newValue) }
        }
    }

    /// A completion block that a script has set.
    struct Completion {
        /// Where it runs.
        let state: LuaState
        /// Whether that state knows that it may have to run it: the operation has been added or started.
        var isAwaited = false
        /// The operation has finished, and that state has been told.
        var isPosted = false
        private var knownPlace: Int32 = -1

        init(state: LuaState) { self.state = state }

        /// Where that state has the operation among those that are about to finish, or have.
        var place: Int? {
            get { knownPlace < 0 ? nil : Int(knownPlace) }
            set { knownPlace = newValue.map { Int32($0) } ?? -1 }
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

    /// It has finished: where the state has to be told that has set the completion block, if it has not been and is not closed, and the
    /// other states that keep their handles.
    mutating func takeEnd() -> (completing: Inbox?, others: SmallArray<LuaState>) {
        guard completion != nil else { return (nil, pinningStates) }
        let inbox = completion?.isPosted == false ? completion?.state.openInbox : nil
        completion?.isPosted = true
        // Nearly always.
        if case .one(let only) = pinningStates, only === completion?.state { return (inbox, .empty) }
        return (inbox, .several(pinningStates.filter { $0 !== completion?.state }))
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
