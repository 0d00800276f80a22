import CLua
@_spi(Subclassing) import OpEngine
import Synchronization

/// Where the bodies are, and how they get to the state that runs them.
extension LuaOperation {
    /// The number that C uses for the body at `index`.
    func number(ofBodyAt index: Int) -> Int32 { kind == .blocks ? Int32(index + 1) : 0 }

    func cBody(number: Int32) -> clua_body {
        unsafe clua_body(
            object: Unmanaged.passUnretained(self).toOpaque(), kind: ObjectKind.operation.rawValue, handle: 0, number: number,
            is_invocation: kind == .invocation, omits_operation: false,
            method: kind == .instance ? StaticName.main : kind == .asynchronousInstance ? StaticName.start : nil,
            arguments: nil, argument_count: 0)
    }

    /// Takes the bodies, which are about to run, and what the operation asks the store before.
    func takeBodies() -> (SmallArray<Body>, StoredStep?) {
        // If the host added the operation to the main queue or started it here, the bodies run from the handle, provided it was kept.
        let isAtHome = isOfMainState && core.isInMainState && queue.map { core.isMainQueue($0) } ?? true
        let keepsThem = hasAttemptsLeft
        if keepsThem { tellWhenFinished() }
        return withFields { fields in
            if isAtHome, fields.isPinned(in: .home) {
                for index in fields.bodies.indices where fields.bodies[index].isInHandle { fields.bodies[index].form = .handle }
            }
            return (takeBodiesOfAttempt(&fields, keeping: keepsThem), fields.rare?.step)
        }
    }

    /// Whether all bodies run in this thread's state, one after the other.
    func runsSequentially(_ bodies: [Body]) -> Bool {
        !isInQueue || core.isInMainState
            || bodies.contains { if case .handle = $0.form { true } else { false } }
    }

    // MARK: execution blocks

    /// The number of blocks that were added to the operation.
    var blockCount: Int { withFields { $0.blockCount } }

    /// Adds the function at stack index 2, with the arguments after it, as another block.
    ///
    /// - Returns: an answer that stores the function in the handle, if it stays there for now.
    func addBlock(_ call: Call) throws -> Answer {
        let state = call.state
        let runsAtHome = isOfMainState && queue.map { core.isMainQueue($0) } ?? false
        let mayStay = isHome(state) && (!isInQueue || runsAtHome) && !withFields { $0.isSealed }
        let body = mayStay ? Body(form: .handle) : try encodeBody(call)
        let number = withFields { fields -> Int? in
            if fields.areBodiesTaken || isExecuting || isFinished { return nil }
            fields.bodies.append(body)
            fields.blockCount += 1
            return fields.bodies.count
        }
        guard let number else { throw OperationError.executionBlockAddedTooLate(operation: name ?? displayName) }
        return mayStay ? .addBody(at: 2, number: Int32(number)) : .nothing
    }

    // MARK: sending

    /// Makes an operation whose only body is the function at stack index 2, with the arguments after it.
    convenience init(sending call: Call) throws(Failure) {
        let parcel = try call.encodeBody()
        self.init(
            call.state.origin(of: .function, nil), StateWord(body: parcel, isInHandle: false, hasCompletion: false))
        registerReferences(of: parcel)
        joinRun(of: call.state)
    }

    /// Makes an operation whose only body is the function at a stack index.
    convenience init(sendingFunctionAt index: Int32, of call: Call) throws(CallError) {
        let parcel = try call.sentFunction(at: index)
        self.init(call.state.origin(of: .function, nil), StateWord(body: parcel, isInHandle: false, hasCompletion: false))
        registerReferences(of: parcel)
        joinRun(of: call.state)
    }

    private func encodeBody(_ call: Call) throws(Failure) -> Body {
        let parcel = try call.encodeBody()
        parcel.makeUnowned(referencesTo: self)
        registerReferences(of: parcel)
        return Body(form: .parcel(parcel), isInHandle: false)
    }

    /// Prepares the operation for `queue`, or for an immediate start if `queue` is nil. `state` calls this before it adds or starts the
    /// operation. See `prepared`.
    ///
    /// - Parameter handle: the stack index of the handle in the current call, or 0 to look it up.
    /// - Returns: whether the functions were copied, so that the handle no longer needs them.
    /// - Throws: an error if something in the functions cannot be sent.
    fileprivate func prepare(for queue: OperationQueue?, in state: LuaState, handleAt handle: Int32) throws(Failure) -> Bool {
        guard !isInQueue, !isExecuting, !isFinished else { return false }  // misuse, which the engine rejects
        joinRun(of: state)
        let isHome = isHome(state)
        let destination = unsafe queue.map { unsafe Unmanaged.passUnretained($0) }
        let runsAtHome =
            unsafe destination?.with { queue in isOfMainState && withCore { $0.isMainQueue(queue) } } ?? (isHome && state.link == nil)
        let reference = reference(to: state)
        var (needsPin, bodiesHere, isObserved, step) = withFields {
            ($0.completion?.state == reference, isHome ? $0.indicesInHandle : .empty, $0.isObserved, $0.rare?.step)
        }
        if let step { try plan(step) }
        if runsAtHome {
            withFields { fields in
                for index in fields.bodies.indices where fields.bodies[index].isInHandle { fields.bodies[index].form = .handle }
            }
            needsPin = needsPin || !bodiesHere.isEmpty  // in any other state, `seal` has already pinned it
        } else if isHome {
            for index in bodiesHere { try encodeBody(at: index, in: state, handleAt: handle) }
        } else {
            for body in withFields({ $0.bodies }) {
                if case .unsendable(let refusal) = body.form { throw Failure(message: refusal.message) }
            }
        }
        if needsPin { try pin(in: state, handleAt: handle) }
        if isObserved { keepObservations(in: state) }
        return isHome && !runsAtHome
    }

    /// Copies a body out of the handle in `state`.
    private func encodeBody(at index: Int, in state: LuaState, handleAt handle: Int32) throws(Failure) {
        let parcel = try state.encodeBody(of: self, number: number(ofBodyAt: index), handleAt: handle)
        if !parcel.isFlat { state.publishPaths() }
        if parcel.hasReferences { registerReferences(of: parcel) }
        var form = Body.Form.parcel(consume parcel)
        // `cancel` may have dropped the bodies on another thread; then this exchange does nothing.
        withFields { $0.exchangeForm(&form, ofBodyAt: index) }
    }

    /// Keeps the handle in `state`, and the functions in it, alive until the operation has finished. If `isSealed`, a garbage collection
    /// unpins the handle earlier, when nothing outside of `state` can reach the operation any more.
    func pin(in state: LuaState, isSealed: Bool = false, handleAt handle: Int32 = 0) throws(Failure) {
        let reference = reference(to: state)
        let (isNew, isAwaited) = withFields { fields in
            let isNew = fields.pin(in: reference)
            // The state must remember that it runs the completion block, which may be newer than the pin.
            guard !isSealed, let completion = fields.completion, completion.state == reference, !completion.isAwaited else {
                return (isNew, false)
            }
            fields.completion?.isAwaited = true
            return (isNew, true)
        }
        if isNew {
            do throws(Failure) { try state.pin(self, .operation, handleAt: handle) } catch {
                withFields { fields in
                    _ = fields.unpin(in: reference)
                    if isAwaited, fields.completion?.state == reference { fields.completion?.isAwaited = false }
                }
                throw error
            }
        }
        if isAwaited { state.awaitCompletion() }
        // Comes last: the operation may already have finished, and then the handle must be unpinned.
        defer { if isNew { tellWhenFinished() } }
        if isNew && isSealed { try state.watch(self) }
    }

    /// Undoes `prepare` after the engine has rejected the operation. What was pinned because another state may add the operation stays
    /// pinned.
    func withdraw(in state: LuaState) {
        guard !isInQueue, !isExecuting, !isFinished else { return }
        step?.end()
        let isWatched = state.isWatching(self), reference = reference(to: state)
        let (isPinned, isAwaited, observations) = withFields { fields in
            let isAwaited = fields.completion.map { $0.isAwaited && $0.state == reference } ?? false
            if isAwaited { fields.completion?.isAwaited = false }
            let isPinned = !isWatched && fields.unpin(in: reference)
            return (isPinned, isAwaited, isWatched || fields.isSealed ? [] : fields.observations)
        }
        if isAwaited { state.stopAwaitingCompletion() }
        if isPinned { state.unpin(self) }
        for observation in observations where observation.state === state { observation.stopAwaiting(endOf: self) }
    }

    /// Whether the operation must be sealed when it leaves `state` by reference, because its functions are still in `state`.
    func needsSealing(from state: LuaState) -> Bool {
        guard !isFinished else { return false }
        let reference = reference(to: state)
        return withFields { fields in
            if fields.isSealed { return false }
            let isHandle = fields.bodies.contains { if case .handle = $0.form { true } else { false } }
            if isHandle { return reference == .home }
            let isObserved = fields.observations.contains { $0.state === state && !$0.isPinned }
            return isObserved || fields.completion?.state == reference && !fields.isPinned(in: reference)
        }
    }

    /// Copies the functions, because another state may add the operation.
    func seal(in state: LuaState) {
        let reference = reference(to: state)
        let (bodies, hasCallbacks) = withFields { fields in
            fields.isSealed = true
            return (fields.bodies, fields.completion?.state == reference || fields.observations.contains { $0.state === state })
        }
        var needsPin = hasCallbacks
        if !isInQueue, reference == .home {
            for (index, body) in bodies.enumerated() {
                guard case .handle = body.form else { continue }
                var form: Body.Form
                do throws(Failure) {
                    let parcel = try state.keepingInterrupt { () throws(Failure) in
                        try state.encodeBody(of: self, number: number(ofBodyAt: index), handleAt: 0)
                    }
                    registerReferences(of: parcel)
                    form = .parcel(parcel)
                } catch { form = .unsendable(Body.Refusal(message: error.message)) }
                withFields { $0.exchangeForm(&form, ofBodyAt: index) }
                // If another state adds the operation to the main queue, it runs here, from the handle.
                needsPin = needsPin || core.isMain(state)
            }
            // The script is in another process, so nobody keeps the handle.
            if state.link != nil {
                withFields { fields in for index in fields.bodies.indices { fields.bodies[index].isInHandle = false } }
            }
        }
        // A failure here means that memory has run out. The script's next step reports that.
        if needsPin { try? pin(in: state, isSealed: true) }
        keepObservations(in: state)
    }

    /// Undoes `seal`, because only the handle in `state` still refers to the operation.
    func unseal(in state: LuaState) {
        let reference = reference(to: state)
        withFields { fields in
            fields.isSealed = false
            _ = fields.unpin(in: reference)
            guard reference == .home else { return }
            for index in fields.bodies.indices where fields.bodies[index].isInHandle { fields.bodies[index].form = .handle }
        }
        for observation in withFields({ $0.observations }) where observation.state === state {
            observation.stopAwaiting(endOf: self)
        }
        state.unwatch(self)
        state.unpin(self)
    }
}

extension Call {
    /// Encodes the function at stack index 2 with the arguments after it.
    fileprivate func encodeBody() throws(Failure) -> Parcel {
        let parcel = try state.encode(count: count - 1, CLUA_BODY)
        if !parcel.isFlat { state.publishPaths() }
        return parcel
    }
}

extension Operation {
    /// This operation if it is a script's, else nil. Cheaper than a cast, and retains nothing.
    @inline(__always)
    var unmanagedOfScript: Unmanaged<LuaOperation>? {
        // Safety: the class is final, so an equal type means an instance of it.
        type(of: self) == LuaOperation.self ? unsafe .passUnretained(unsafeDowncast(self, to: LuaOperation.self)) : nil
    }

    /// Runs `body`, by which `state` adds this operation to `queue`, or starts it if `queue` is nil. A script's operation is prepared
    /// before, and restored if `body` throws.
    ///
    /// - Parameter handle: the stack index of the handle in the current call, or 0 to look it up.
    /// - Returns: whether the functions were copied, so that the handle no longer needs them.
    /// - Throws: an error if something in the functions cannot be sent, and what `body` throws.
    @inline(__always)
    @discardableResult
    func prepared(for queue: OperationQueue?, in state: LuaState, handleAt handle: Int32, _ body: () throws -> Void) throws -> Bool {
        guard let operation = unsafe unmanagedOfScript else {
            try body()
            return false
        }
        // A garbage collection meanwhile must not unseal the operation. It looks at the reference count, so retain the operation here.
        let kept = unsafe operation.with({ state.isWatching($0) }) ? operation.retain() : nil
        defer { unsafe kept?.release() }
        return try unsafe operation.with { operation in
            do {
                let isSent = try operation.prepare(for: queue, in: state, handleAt: handle)
                try body()
                return isSent
            } catch {
                operation.withdraw(in: state)
                throw error
            }
        }
    }
}

extension Sequence<Operation> {
    /// Prepares all operations or none, and runs `body`. See `Operation.prepared`.
    func prepared(for queue: OperationQueue?, in state: LuaState, _ body: () throws -> Void) throws {
        do {
            for case let operation as LuaOperation in self { _ = try operation.prepare(for: queue, in: state, handleAt: 0) }
            try body()
        } catch {
            for case let operation as LuaOperation in self { operation.withdraw(in: state) }
            throw error
        }
    }
}
