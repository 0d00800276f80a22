import CLua
@_spi(Subclassing) import OpEngine
import Synchronization

/// Where the bodies are, and how they come to where they run.
extension LuaOperation {
    /// What C calls the body at `index`.
    func number(ofBodyAt index: Int) -> Int32 { kind == .blocks ? Int32(index + 1) : 0 }

    func cBody(number: Int32) -> clua_body {
        unsafe clua_body(
            object: Unmanaged.passUnretained(self).toOpaque(), kind: ObjectKind.operation.rawValue, handle: 0, number: number,
            is_invocation: kind == .invocation,
            method: kind == .instance ? StaticName.main : kind == .asynchronousInstance ? StaticName.start : nil,
            arguments: nil, argument_count: 0)
    }

    /// The bodies, which are about to run.
    func takeBodies() -> SmallArray<Body> {
        // The host has added it to the main queue, or started it: then they run as they are, if the handle has been kept.
        let isAtHome = isOfMainState && core.isMainThread && queue.map { core.isMainQueue($0) } ?? true
        return withFields { fields in
            if isAtHome, fields.isPinned(in: .home) {
                for index in fields.bodies.indices where fields.bodies[index].isInHandle { fields.bodies[index].form = .handle }
            }
            return fields.takeBodies()
        }
    }

    /// Whether they run as they are, in the state of this thread.
    func isHere(_ bodies: [Body]) -> Bool {
        !isInQueue || core.isMainThread
            || bodies.contains { if case .handle = $0.form { true } else { false } }
    }

    // MARK: execution blocks

    /// How many blocks it has been given.
    var blockCount: Int { withFields { $0.blockCount } }

    /// Adds the function at stack index 2, with the arguments after it.
    ///
    /// - Returns: what puts it into the handle, when it stays there for now.
    func addBlock(_ call: Call) throws -> Answer {
        let state = call.state
        let runsAtHome = isOfMainState && queue.map { core.isMainQueue($0) } ?? false
        let mayStay = isHome(state) && (!isInQueue || runsAtHome) && !withFields { $0.isSealed }
        let body = mayStay ? Body(form: .handle) : try encodeBody(call)
        let number = withFields { fields -> Int? in
            if fields.haveBodiesGone || isExecuting || isFinished { return nil }
            fields.bodies.append(body)
            fields.blockCount += 1
            return fields.bodies.count
        }
        guard let number else { throw OperationError.executionBlockAddedTooLate(operation: name ?? displayName) }
        return mayStay ? .addBody(at: 2, number: Int32(number)) : .nothing
    }

    // MARK: sending

    /// One whose only body is the function at stack index 2 with the arguments after it.
    convenience init(sending call: Call) throws(Failure) {
        let parcel = try call.encodeBody()
        self.init(
            call.state.origin(of: .function, nil), StateWord(body: parcel, isInHandle: false, hasCompletion: false))
        note(parcel)
    }

    private func encodeBody(_ call: Call) throws(Failure) -> Body {
        let parcel = try call.encodeBody()
        parcel.letGo(of: self)
        note(parcel)
        return Body(form: .parcel(parcel), isInHandle: false)
    }

    /// Makes it fit to run in `queue`, or at once for nil: called by `state` before it adds or starts it. See `prepared`.
    ///
    /// - Parameter handle: where its handle is on the stack of the call; 0: that has to be looked for.
    /// - Returns: whether it is all that is needed of the functions in the handle.
    /// - Throws: what in its functions cannot be sent.
    fileprivate func prepare(for queue: OperationQueue?, in state: LuaState, handleAt handle: Int32) throws(Failure) -> Bool {
        guard !isInQueue, !isExecuting, !isFinished else { return false }  // misuse, which the engine refuses
        let isHome = isHome(state)
        let destination = unsafe queue.map { unsafe Unmanaged.passUnretained($0) }
        let runsAtHome = unsafe destination?.with { queue in isOfMainState && withCore { $0.isMainQueue(queue) } } ?? isHome
        let reference = reference(to: state)
        var (needsPin, bodiesHere, isObserved) = withFields {
            ($0.completion?.state == reference, isHome ? $0.indicesInHandle : .empty, $0.isObserved)
        }
        if runsAtHome {
            withFields { fields in
                for index in fields.bodies.indices where fields.bodies[index].isInHandle { fields.bodies[index].form = .handle }
            }
            needsPin = needsPin || !bodiesHere.isEmpty  // elsewhere it has been pinned when it left
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

    /// Copies a body that is in the handle in `state`.
    private func encodeBody(at index: Int, in state: LuaState, handleAt handle: Int32) throws(Failure) {
        let parcel = try state.encodeBody(of: self, number: number(ofBodyAt: index), handleAt: handle)
        if !parcel.isFlat { state.publishPaths() }
        if parcel.hasReferences { note(parcel) }
        var form = Body.Form.parcel(consume parcel)
        // Cancelling, on whatever thread, drops them.
        withFields { $0.exchangeForm(&form, ofBodyAt: index) }
    }

    /// Keeps the handle in `state`, with the functions that are in it, until the operation has finished. `isSealed`: or until nobody else
    /// can add it.
    func pin(in state: LuaState, isSealed: Bool = false, handleAt handle: Int32 = 0) throws(Failure) {
        let reference = reference(to: state)
        let (isNew, isAwaited) = withFields { fields in
            let isNew = fields.pin(in: reference)
            // The state has to remember that it runs the completion block, which may be a new one.
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
        // Last: it may have finished, and then the handle is let go of.
        defer { if isNew { tellWhenFinished() } }
        if isNew && isSealed { try state.watch(self) }
    }

    /// The engine has refused to add or start it: undoes what `prepare` has done for that. What has been pinned because others may add it
    /// stays so.
    func withdraw(in state: LuaState) {
        guard !isInQueue, !isExecuting, !isFinished else { return }
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

    /// Whether it leaves `state` by reference while its functions are still there.
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

    /// Copies its functions, since the state that adds it may not be this one.
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
                    note(parcel)
                    form = .parcel(parcel)
                } catch { form = .unsendable(Body.Refusal(message: error.message)) }
                withFields { $0.exchangeForm(&form, ofBodyAt: index) }
                // Another state may add it to the main queue: then it runs here, as it is.
                needsPin = needsPin || core.isMain(state)
            }
        }
        // Should this fail, memory has run out, and the next step of the script says so.
        if needsPin { try? pin(in: state, isSealed: true) }
        keepObservations(in: state)
    }

    /// Nobody but its handle in `state` refers to it any more: it is as it was before it left.
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
    /// The function at stack index 2 with the arguments after it.
    fileprivate func encodeBody() throws(Failure) -> Parcel {
        let parcel = try state.encode(count: count - 1, CLUA_BODY)
        if !parcel.isFlat { state.publishPaths() }
        return parcel
    }
}

extension Operation {
    /// Itself, if it is one of scripts: a cast that costs less, and counts no reference.
    @inline(__always)
    var unmanagedOfScript: Unmanaged<LuaOperation>? {
        // Safety: nobody derives from the class.
        type(of: self) == LuaOperation.self ? unsafe .passUnretained(unsafeDowncast(self, to: LuaOperation.self)) : nil
    }

    /// `state` adds it to `queue`, or starts it for nil, by `body`: one of scripts is made fit for that before, and as it was when it is
    /// refused.
    ///
    /// - Parameter handle: where its handle is on the stack of the call; 0: that has to be looked for.
    /// - Returns: whether its functions were copied, so that the handle needs them no more.
    /// - Throws: what in its functions cannot be sent, and what `body` throws.
    @inline(__always)
    @discardableResult
    func prepared(for queue: OperationQueue?, in state: LuaState, handleAt handle: Int32, _ body: () throws -> Void) throws -> Bool {
        guard let operation = unsafe unmanagedOfScript else {
            try body()
            return false
        }
        // A collection while it is made fit must not take it back from where it has left to: that looks at the count of references.
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
    /// The same for all of them, or none.
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
