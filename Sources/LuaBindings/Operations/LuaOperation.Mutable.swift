extension LuaOperation {
    /// What changes, guarded by the operation's lock.
    struct Mutable {
        /// Empty once they run, or never will.
        var bodies: SmallArray<Body>
        var blockCount: Int
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
        /// The states that run its bodies now, and so are not closed.
        var runningStates: SmallArray<LuaState> = .empty
        fileprivate var rare: Rare?

        init(bodies: SmallArray<Body>) {
            self.bodies = bodies
            blockCount = bodies.count
        }
    }

    /// What most operations have nothing of.
    fileprivate final class Rare {
        var storage: [String: Parcel] = [:]
        var observations: [Observation] = []
        var stuckStates: [LuaState] = []
        var stopReason: StopReason?
        var memoryLimit: Int?
        var timeLimit: TimeLimit?
        var processes: [ChildProcess] = []
    }
}

extension LuaOperation.Mutable {
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

    /// Those states of which a C function does not return, so that another worker does the work of theirs.
    var stuckStates: [LuaState] {
        get { rare?.stuckStates ?? [] }
        _modify { yield &rareInUse.stuckStates }
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
