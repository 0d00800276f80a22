@_spi(Subclassing) import OpEngine

/// Groups: operations that consist of others. The engine does the work with the queue inside; here is what scripts add to it.
extension LuaOperation {
    /// Makes a group in `state`.
    static func makeGroup(in state: LuaState, scriptClass: ScriptClass? = nil) -> LuaOperation {
        let group = LuaOperation(in: state, kind: .group, bodyCount: 0, scriptClass: scriptClass)
        let members = MemberQueue(engine: group.core.engine)
        group.withFields { $0.rareInUse.memberQueue = members }
        members.belongs(to: group)
        return group
    }

    func startGroup(_ members: MemberQueue) {
        if !isCancelled { timeLimit?.begin(for: self) }
        if let error = startOrRefuse(endsWithMain: false, members: members) { fatalError("\(error)") }
    }

    /// Cancels the group, stops the members that run, and records why. Groups may be nested deeply, so this is not recursive.
    func stopGroup(_ members: MemberQueue, _ reason: StopReason) {
        if isExecuting { record(OperationFailure(Failure(stop: reason), kind: reason.failureKind, of: self)) }
        // No group may finish before it is cancelled, and its members may do so from here on.
        cancelItself()
        // Cancelling reaches all of them at once.
        forEachMember(of: members) { if $0.memberQueue == nil { $0.announceStop(.interrupted) } else { $0.cancelItself() } }
        cancel()
        forEachMember(of: members) { if $0.memberQueue == nil { $0.stop(.interrupted) } }
    }

    /// Calls `body` with the members that are the scripts', each group before its members.
    private func forEachMember(of members: MemberQueue, _ body: (LuaOperation) -> Void) {
        var pending = [members]
        while let queue = pending.popLast() {
            for case let member as LuaOperation in queue.operations {
                body(member)
                if let inner = member.memberQueue { pending.append(inner) }
            }
        }
    }

    /// What each member has returned first; empty for those that have returned nothing. Nil until the group has finished.
    var resultsOfMembers: [Parcel]? {
        guard isFinished, let memberQueue else { return nil }
        return memberQueue.members.map { ($0 as? LuaOperation)?.results?.first ?? .empty }
    }
}
