import CLua
@_spi(Subclassing) import OpEngine

/// The places of the bodies, and how these reach the state that runs them.
extension LuaOperation {
    /// One body of an operation.
    enum Body {
        /// In the handle of the state that made the operation.
        case handle
        /// In that handle, and in a copy that was made from it.
        case copy(Parcel)
        /// In that handle. The operation left its state by reference, but the body could not be copied. Indirect, like the last case, so that
        /// `Body` is one pointer wide.
        indirect case unsendable(Failure)
        case parcel(Parcel)
        /// A function and the host's values that are its arguments.
        indirect case hostCall(Parcel, [LuaValue])

        /// Whether the handle of the state that made the operation has the body.
        var isInHandle: Bool {
            switch self {
            case .handle, .copy, .unsendable: true
            case .parcel, .hostCall: false
            }
        }

        var isOnlyInHandle: Bool { if case .handle = self { true } else { false } }
    }

    /// The number that C uses for the body at `index`.
    func number(ofBodyAt index: Int) -> Int32 { kind == .blocks ? Int32(index + 1) : 0 }

    func cBody(number: Int32) -> clua_body {
        unsafe clua_body(
            object: Unmanaged.passUnretained(self).toOpaque(), kind: ObjectKind.operation.rawValue, handle: 0, number: number,
            is_invocation: kind == .invocation, omits_operation: false,
            method: kind == .instance ? StaticName.main : kind == .asynchronousInstance ? StaticName.start : nil,
            arguments: nil, argument_count: 0)
    }

    /// Takes the bodies, which are about to run, and the operation's question to the store. An operation that may be tried again keeps its
    /// bodies.
    func takeBodies() -> (SmallArray<Body>, StoredStep?) {
        // If the host added the operation to the main queue or started it here, the bodies run from the handle if the state kept the handle.
        let isAtHome = core.isInMainState && runsAtHome(in: queue) ?? isOfMainState
        let keepsThem = hasAttemptsLeft
        if keepsThem { tellWhenFinished() }
        return withFields { fields in
            if isAtHome, fields.isPinned(at: .home) { fields.useHandle() }
            // `isEnding` still has the value of the previous attempt.
            if fields.rare?.bodies != nil { fields.isEnding = false }
            let bodies = fields.takeBodies()
            if keepsThem { fields.rareInUse.bodies = bodies } else { fields.rare?.bodies = nil }
            return (bodies, fields.rare?.step)
        }
    }

    /// The function of a body, with everything that it captures, but without the arguments of the host.
    func parcel(of body: Body) throws(Failure) -> Parcel {
        switch body {
        case .parcel(let parcel), .copy(let parcel): return parcel
        case .hostCall(let parcel, _): return parcel
        case .unsendable(let refusal): throw refusal
        case .handle:
            throw step == nil
                ? isElsewhere
                : Failure(
                    message:
                        "\(displayName) asks the store, but its function runs in the script's own state, where more counts than what it captures: "
                        + "add it to a queue other than the main queue")
        }
    }

    // MARK: execution blocks

    /// The number of blocks that were added to the operation.
    var blockCount: Int { withFields { Int($0.blockCount) } }

    /// Whether a block that `state` adds now may stay in the handle there.
    func keepsBlocksInHandle(of state: LuaState) -> Bool {
        isHome(state) && (!isInQueue || runsAtHome(in: queue) ?? false) && !withFields { $0.isSealed }
    }

    /// Adds another block.
    ///
    /// - Parameter parcel: the block; nil if the caller puts it into the handle.
    /// - Returns: the number of the block in the handle.
    func addBlock(_ parcel: Parcel?) throws -> Int32 {
        keep(parcel)
        let number = withFields { fields -> Int? in
            if isExecuting || isFinished { return nil }
            let number = fields.changeBodies { bodies in
                bodies.append(parcel.map { .parcel($0) } ?? .handle)
                return bodies.count
            }
            if number != nil { fields.blockCount += 1 }
            return number
        }
        guard let number else { throw OperationError.executionBlockAddedTooLate(operation: name ?? displayName) }
        return Int32(number)
    }

    // MARK: sending

    /// Makes an operation whose only body is `parcel`, which `state` has sent for it.
    convenience init(sending parcel: Parcel, from state: LuaState) {
        self.init(state.origin(of: .function, nil), StateWord(body: parcel, isInHandle: false, hasCompletion: false))
        registerReferences(of: parcel)
        joinRun(of: state)
    }

    /// Prepares the operation for `queue`, or for an immediate start if `queue` is nil. `state` calls this before it adds or starts the
    /// operation. See `prepared`.
    ///
    /// - Parameter handle: the stack index of the handle in the current call, or 0 to look it up.
    /// - Returns: whether the functions were copied, so that the handle no longer needs them.
    /// - Throws: an error if the functions contain a value that cannot be sent.
    fileprivate func prepare(for queue: OperationQueue?, in state: LuaState, handleAt handle: Int32) throws(Failure) -> Bool {
        guard !isInQueue, !isExecuting, !isFinished else { return false }  // misuse, which the engine rejects
        joinRun(of: state)
        let place = place(of: state)
        let runsAtHome = runsAtHome(in: queue) ?? (place == .home && state.link == nil)
        let (needsPin, bodies, isObserved, step) = withFields { fields in
            let runsFromHandle = runsAtHome && fields.useHandle()
            return (
                fields.completion?.place == place || runsFromHandle && place == .home, fields.bodies, !fields.observations.isEmpty,
                fields.rare?.step
            )
        }
        if let step { try plan(step) }
        // In any other state, `seal` has already pinned the handle and copied the functions.
        if !runsAtHome && place == .home {
            for (index, body) in bodies.enumerated() where body.isInHandle { try copyBody(at: index, in: state, handleAt: handle) }
        } else if !runsAtHome {
            for case .unsendable(let refusal) in bodies { throw refusal }
        }
        if needsPin { try pin(in: state, handleAt: handle) }
        if isObserved { keepObservations(in: state) }
        return place == .home && !runsAtHome
    }

    /// Copies a body out of the handle in `state`.
    private func copyBody(at index: Int, in state: LuaState, handleAt handle: Int32 = 0) throws(Failure) {
        let parcel = try state.encodeBody(of: self, number: number(ofBodyAt: index), handleAt: handle)
        if !parcel.isFlat { state.publishSettings() }
        registerReferences(of: parcel)
        // If the script is in another process, nothing keeps the handle.
        replaceBody(at: index, by: state.link == nil ? .copy(parcel) : .parcel(parcel))
    }

    /// Replaces a body. Does nothing if `cancel` has dropped the bodies on another thread.
    private func replaceBody(at index: Int, by body: Body) {
        let replaced = withFields { $0.replaceBody(at: index, by: body) }
        withExtendedLifetime(replaced) {}
    }

    /// Whether operations of `queue` run in the state that made this operation; nil without a queue.
    private func runsAtHome(in queue: OperationQueue?) -> Bool? { queue.map { queue in withHome { $0.runsHere(in: queue) } ?? false } }

    /// Undoes `prepare` after the engine has rejected the operation. A handle that was pinned because another state may add
    /// the operation stays pinned.
    func withdraw(in state: LuaState) {
        guard !isInQueue, !isExecuting, !isFinished else { return }
        step?.end()
        // The pin of a watched operation is older, and stays.
        if state.isWatching(self) { return }
        let place = place(of: state)
        let (isPinned, observations) = withFields { fields in (fields.unpin(at: place), fields.isSealed ? [] : fields.observations) }
        if isPinned { state.unpin(self) }
        for observation in observations where observation.state === state { observation.stopAwaiting(endOf: self) }
    }

    // MARK: leaving the state by reference

    /// Whether the operation must be sealed when it leaves `state` by reference, because its functions are still in `state`.
    func needsSealing(from state: LuaState) -> Bool {
        guard !isFinished else { return false }
        let place = place(of: state)
        return withFields { fields in
            if fields.isSealed { return false }
            if fields.bodies.contains(where: \.isOnlyInHandle) { return place == .home }
            let isObserved = fields.observations.contains { $0.state === state && !$0.isPinned }
            return isObserved || fields.completion?.place == place && !fields.isPinned(at: place)
        }
    }

    /// Copies the functions, because another state may add the operation.
    func seal(in state: LuaState) {
        let place = place(of: state)
        var (bodies, needsPin) = withFields { fields in
            fields.isSealed = true
            return (fields.bodies, fields.completion?.place == place || fields.observations.contains { $0.state === state })
        }
        if !isInQueue, place == .home {
            for (index, body) in bodies.enumerated() where body.isOnlyInHandle {
                do throws(Failure) {
                    try state.keepingInterrupt { () throws(Failure) in try copyBody(at: index, in: state) }
                } catch { replaceBody(at: index, by: .unsendable(error)) }
                // If another state adds the operation to the main queue, the body runs here, from the handle.
                needsPin = needsPin || core.isMain(state)
            }
        }
        // A failure here means that memory has run out. The script's next step reports that.
        if needsPin { try? pin(in: state, isSealed: true) }
        keepObservations(in: state)
    }

    /// Undoes `seal`, because only the handle in `state` still refers to the operation.
    func unseal(in state: LuaState) {
        let place = place(of: state)
        let observations = withFields { fields in
            fields.isSealed = false
            _ = fields.unpin(at: place)
            if place == .home { fields.useHandle() }
            return fields.observations
        }
        for observation in observations where observation.state === state { observation.stopAwaiting(endOf: self) }
        state.unwatch(self)
        state.unpin(self)
    }
}

extension LuaState {
    /// Makes the operation of `handle`, a deferred one at stack index 2, and adds it to `queue`, an `OperationQueue`. The operation is
    /// inline.
    ///
    /// - Returns: true if the operation was added. False, and nothing was done, if a script has observed something in this state, if the
    ///   runtime or the queue limits operations, if the body is no function of known code that captures only plain values, or if it will run
    ///   in this state. Also false if the queue has rejected the operation; then the handle is no longer deferred.
    @inline(__always)
    func addDeferredOperation(_ lua: OpaquePointer, to queue: OperationQueue, _ handle: UnsafeMutablePointer<clua_handle>) -> Bool {
        if hasObserved || core.usage.limitsAdding || queue.hasPendingLimit || runsHere(in: queue) { return false }
        var contents = unsafe clua_parcel()
        guard unsafe clua_encode_deferred(lua, 2, &contents) else { return false }
        let isFlat = unsafe contents.is_flat
        let hasCompletion = unsafe handle.pointee.has_callback != 0
        let operation = unsafe Unmanaged.passRetained(
            LuaOperation(
                origin(of: .function, nil),
                LuaOperation.StateWord(body: Parcel(contents), isInHandle: true, hasCompletion: hasCompletion)))
        return unsafe operation._withUnsafeGuaranteedRef { made in
            made.handleSlot = unsafe handle.pointee.slot
            unsafe clua_give_object(lua, 2, handle, operation.toOpaque())
            if hasCompletion { hasPinned() }
            // Encoding may run finalizers, which may read the operation's properties, so the handle already has the operation here.
            if !isFlat { publishSettings() }
            do { try queue.tryAddOperation(made) } catch {
                made.withdraw(in: self)
                return false
            }
            return true
        }
    }
}

extension Operation {
    /// This operation if it is a script's, else nil. Cheaper than a cast, and retains nothing.
    @inline(__always)
    var unmanagedOfScript: Unmanaged<LuaOperation>? {
        // Safety: the class is final, so an equal type means an instance of it.
        type(of: self) == LuaOperation.self ? unsafe .passUnretained(unsafeDowncast(self, to: LuaOperation.self)) : nil
    }
}

extension [Operation] {
    /// Runs `body`, in which `state` adds these operations to `queue`, or starts them if `queue` is nil. Prepares the operations of scripts
    /// before, all or none, and restores them if `body` throws.
    ///
    /// The array keeps the operations: a garbage collection that finds only the handle's reference unseals an operation.
    ///
    /// - Parameter handle: the stack index of the handle of the only operation in the current call, or 0 to look up the handles.
    /// - Returns: whether the functions of the last one were copied, so that its handle no longer needs them.
    /// - Throws: an error if the functions contain a value that cannot be sent, and the error of `body`.
    @discardableResult
    func prepared(
        for queue: OperationQueue?, in state: LuaState, handleAt handle: Int32 = 0, _ body: () throws -> Void
    ) throws -> Bool {
        do {
            var isSent = false
            for case let operation as LuaOperation in self { isSent = try operation.prepare(for: queue, in: state, handleAt: handle) }
            try body()
            return isSent
        } catch {
            for case let operation as LuaOperation in self { operation.withdraw(in: state) }
            throw error
        }
    }
}
