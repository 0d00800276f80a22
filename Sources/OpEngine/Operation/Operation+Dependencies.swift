extension Operation {
    /// What `dependencies` is, whatever a subclass says.
    var listed: [Operation] {
        lock.withLock { listedDependencies }
    }

    /// With `lock` held.
    private var listedDependencies: [Operation] {
        var all: [Operation] = []
        // Safety: an edge retains its dependency while it is on the list.
        unsafe dependencyList.forEach { unsafe all.append($0.pointee.dependency.takeUnretainedValue()) }
        return all
    }

    /// `addDependency`, but throws `OperationError.dependsOnItself` and `.dependencyCycle`, and then changes nothing.
    ///
    /// The check costs O(1) unless something already depends on this operation; else it visits what `operation` waits for.
    public func tryAddDependency(_ operation: Operation) throws {
        guard operation !== self else { throw OperationError.dependsOnItself(operation: label) }
        if let path = cyclePath(through: [operation]) { throw OperationError.dependencyCycle(path: path.map(\.label)) }
        link(to: operation)
    }

    func unlink(from operation: Operation) {
        var old: [Operation] = []
        let edge = unsafe lock.withLock {
            let mailbox = observedMailbox
            if mailbox != nil { old = listedDependencies }
            let edge = unsafe dependencyList.remove(operation)
            if let mailbox, unsafe edge != nil { mailbox.record(.dependencies, old: old, new: listedDependencies) }
            return unsafe edge
        }
        guard let edge = unsafe edge else { return }
        // Safety: the edge is off this operation's list and so ours; the dependency's lock guards the rest of it.
        let wasCounted = operation.dependentsLock.withLock {
            unsafe operation.dependentList.remove(edge)
            return unsafe edge.pointee.isCounted
        }
        if wasCounted && transition({ $0.dependencyRemoved() }) { postToQueue() }
        if let outcome = operation.outcome, outcome != .succeeded { forgetFailedDependency() }
        unsafe DependencyEdge.free(edge)
        // Safety: balances the retain of `link(to:)`; the caller's reference keeps it alive here.
        unsafe Unmanaged.passUnretained(operation).release()
        deliverChanges()
    }

    /// A dependency that did not succeed was removed: it does not count any more. What has been cancelled because of it stays so.
    private func forgetFailedDependency() {
        let isOther: (Operation) -> Bool = { ($0.outcome ?? .succeeded) != .succeeded }
        if listed.contains(where: isOther) { return }
        transition { $0.clear(State.dependencyFailed) }
        // One that has failed since the list was read.
        guard listed.contains(where: isOther) else { return }
        let mustCancel = transition { state in
            state.set(State.dependencyFailed)
            return state.mustCancel && state.has(State.linked)
        }
        if mustCancel { cancelBecauseOfDependency() }
    }

    func link(to dependency: Operation) {
        var action = State.AddedDependency.ignored
        var mustCancel = false
        lock.withLock {
            dependency.dependentsLock.withLock {
                guard !dependsAlready(on: dependency) else { return }
                // Safety: the edge is freed by `removeDependency` or when this operation goes.
                let edge = unsafe DependencyEdge.make(dependent: self, dependency: .passRetained(dependency))
                unsafe dependencyList.append(edge)
                unsafe dependency.dependentList.append(edge)
                if let mailbox = observedMailbox {
                    mailbox.record(.dependencies, old: Array(listedDependencies.dropLast()), new: listedDependencies)
                }
                let before = dependency.transition { state in
                    defer { state.set(State.hasDependents) }
                    return state
                }
                if before.has(State.finished) {
                    unsafe edge.pointee.isCounted = false
                    guard before.outcome != .succeeded else { return }
                    mustCancel = transition { state in
                        state.set(State.dependencyFailed)
                        return state.mustCancel && state.has(State.linked)
                    }
                } else {
                    action = transition { $0.dependencyAdded() }
                }
            }
        }
        if mustCancel { cancelBecauseOfDependency() }
        if action == .recall { withQueueCore { $0.recall(self) } }
        deliverChanges()
    }

    /// With both locks held. Looks at both lists in step, until the shorter one ends.
    private func dependsAlready(on dependency: Operation) -> Bool {
        // Safety: the edges are on the lists.
        var mine = unsafe dependencyList.first
        var other = unsafe dependency.dependentList.first
        while let edge = unsafe mine, let otherEdge = unsafe other {
            if unsafe edge.pointee.dependency._withUnsafeGuaranteedRef({ $0 === dependency }) { return true }
            if unsafe otherEdge.pointee.dependent === self { return true }
            unsafe mine = dependencyList.next(after: edge)
            unsafe other = otherEdge.pointee.nextDependent
        }
        return false
    }

    /// The cycle that a dependency on one of `first` closes or would close, beginning and ending with this operation; nil when there
    /// is none.
    func cyclePath(through first: [Operation]) -> [Operation]? {
        guard loadState().has(State.hasDependents) else { return nil }
        var cameFrom = Dictionary(first.map { ($0, self) }, uniquingKeysWith: { one, _ in one })
        var pending = first
        while let next = pending.popLast() {
            for dependency in next.listed where !dependency.isFinished {
                if dependency === self {
                    var path = [self]
                    var step = next
                    while step !== self {
                        path.append(step)
                        step = cameFrom[step] ?? self
                    }
                    return [self] + path.reversed()
                }
                if cameFrom[dependency] == nil {
                    cameFrom[dependency] = next
                    pending.append(dependency)
                }
            }
        }
        return nil
    }
}
