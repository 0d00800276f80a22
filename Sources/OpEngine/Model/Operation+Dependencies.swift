import OpPlatform

extension Operation {
    /// The dependencies, regardless of a subclass's override of `dependencies`.
    var storedDependencies: [Operation] {
        lock.withLock { listedDependencies }
    }

    /// The caller holds `lock`.
    private var listedDependencies: [Operation] {
        var all: [Operation] = []
        var edges = dependencyList.makeIterator()
        while let edge = unsafe edges.next() {
            // Safety: an edge on the list retains its dependency.
            if let dependency = unsafe edge.pointee.dependency { unsafe all.append(dependency.takeUnretainedValue()) }
        }
        return all
    }

    /// Whether all dependencies have finished, although the state word may still count one of them.
    ///
    /// Between the moment a dependency is published as finished and the moment it decrements this operation's count, a caller may already
    /// know that it has finished. This getter hides the gap. Observers are an exception: they see the value that was recorded, and are
    /// notified when the count changes. Returns false if the policy requires success and a dependency did not succeed, because that
    /// dependency is about to cancel this operation.
    @inline(never)
    var allDependenciesFinished: Bool {
        if ThreadContext.current.readsAsRecorded { return false }
        return lock.withLock {
            let needsSuccess = loadState().policy == .succeeded
            var edges = dependencyList.makeIterator()
            while let edge = unsafe edges.next() {
                // Safety: an edge on the list retains its dependency.
                let last = unsafe edge.pointee.dependency?._withUnsafeGuaranteedRef { $0.loadState() }
                guard let last, last.has(State.finished), !needsSuccess || last.outcome == .succeeded else { return false }
            }
            return true
        }
    }
}

extension BeyondFoundation where Self: Operation {
    /// Like `addDependency`, but throws `OperationError.dependsOnItself` or `.dependencyCycle`, and changes nothing then.
    ///
    /// The check costs O(1) if nothing depends on this operation yet. Otherwise it visits everything that `operation` waits for.
    public func tryAddDependency(_ operation: Operation) throws {
        guard operation !== self else { throw OperationError.dependsOnItself(operation: label) }
        if isMember(of: operation) || operation.isMember(of: self) {
            // The group waits for its member, and the member for its group.
            throw OperationError.dependencyCycle(path: [label, operation.label, label])
        }
        if let path = cyclePath(through: [operation]) { throw OperationError.dependencyCycle(path: path.map(\.label)) }
        link(to: operation)
    }
}

extension Operation {
    /// Whether `operation` is among the dependencies. O(1) on average.
    package func depends(on operation: Operation) -> Bool { lock.withLock { unsafe edge(to: operation) != nil } }

    func unlink(from operation: Operation) {
        let wasCounted = lock.withLock { () -> Bool? in
            guard let edge = unsafe edge(to: operation) else { return nil }
            let mailbox = observedMailbox
            let old = mailbox == nil ? [] : listedDependencies
            let wasCounted = unsafe edge.pointee.isCounted && DependentList.remove(edge)
            if let hasManyFree = rareExtras?.dependencyIndex?.remove(operation) {
                unsafe edge.pointee.dependency = nil
                if hasManyFree { dependencyList.freeEmptyBlocks() }
            } else {
                unsafe dependencyList.remove(edge)
            }
            mailbox?.record(.dependencies, old: old, new: listedDependencies)
            return wasCounted
        }
        guard let wasCounted else { return }
        if wasCounted {
            if transition({ $0.dependencyRemoved() }) { postToQueue() } else { askOutsideOfQueues() }
        }
        if let outcome = operation.outcome, outcome != .succeeded { forgetFailedDependency() }
        // Safety: balances the edge's retain. The caller's reference keeps the dependency alive here.
        unsafe Unmanaged.passUnretained(operation).release()
        deliverChanges()
    }

    /// Clears `dependencyFailed` after a dependency that did not succeed was removed, unless another one remains. An operation that was
    /// already cancelled stays cancelled.
    private func forgetFailedDependency() {
        let isOther: (Operation) -> Bool = { ($0.outcome ?? .succeeded) != .succeeded }
        if storedDependencies.contains(where: isOther) { return }
        transition { $0.clear(State.dependencyFailed) }
        // Another dependency may have failed after the list was read.
        guard storedDependencies.contains(where: isOther) else { return }
        if transition({ $0.set(State.dependencyFailed) }).mustCancelInQueue { cancelBecauseOfDependency() }
    }

    func link(to dependency: Operation) {
        var action = State.AddedDependency.ignored
        var mustCancel = false
        lock.withLock {
            var last = dependency.loadState()
            if !last.has(State.finished) {
                dependency.dependentsLock.withLock {
                    last = dependency.expectDependents()
                    if last.has(State.finished) || dependsAlready(on: dependency) { return }
                    unsafe dependency.dependentList.append(appendEdge(to: dependency))
                    action = transition { $0.dependencyAdded() }
                }
            }
            // A finished dependency is not counted, and its list of dependents does not change.
            if last.has(State.finished) { mustCancel = listFinished(dependency, last.outcome) }
        }
        if mustCancel { cancelBecauseOfDependency() }
        if action == .recall { withQueueCore { $0.recall(self) } }
        if loadState().has(State.hasAdmission) { leaveLine() }
        deliverChanges()
    }

    /// Announces that a dependent is about to be added. The caller holds `dependentsLock`.
    ///
    /// Returns the state. If the state is not finished, the finishing thread will find the new dependent: it publishes the end first, and
    /// then sees the flag and takes the lock.
    @inline(__always)
    private func expectDependents() -> State {
        let now = loadState()
        return now.has(State.hasDependents) ? now : transition { $0.set(State.hasDependents) }
    }

    /// Appends a new edge to the operation's own list. The caller holds `lock`.
    @inline(__always)
    private func appendEdge(to dependency: Operation) -> UnsafeMutablePointer<DependencyEdge> {
        let edge = unsafe dependencyList.append(dependency, of: self)
        unsafe rareExtras?.dependencyIndex?.edges[ObjectIdentifier(dependency)] = edge
        if let mailbox = observedMailbox {
            mailbox.record(.dependencies, old: Array(listedDependencies.dropLast()), new: listedDependencies)
        }
        return unsafe edge
    }

    /// Lists a finished dependency, unless it is listed already. The caller holds `lock`. Returns true if the policy requires cancelling
    /// this operation.
    private func listFinished(_ dependency: Operation, _ outcome: OperationOutcome) -> Bool {
        // Every edge sets the flag on its dependency. If the flag is clear, no edge exists and the list need not be searched.
        if dependency.loadState().has(State.hasDependents) {
            if unsafe edge(to: dependency) != nil { return false }
        } else {
            dependency.transition { $0.set(State.hasDependents) }
        }
        unsafe _ = appendEdge(to: dependency)
        return outcome != .succeeded && transition { $0.set(State.dependencyFailed) }.mustCancelInQueue
    }

    /// The edge to a listed dependency. The caller holds `lock`. O(1) on average for any number of dependencies, because a long list gets
    /// an index.
    private func edge(to dependency: Operation) -> UnsafeMutablePointer<DependencyEdge>? {
        if let index = rareExtras?.dependencyIndex { return unsafe index.edges[ObjectIdentifier(dependency)] }
        var edges = dependencyList.makeIterator()
        for _ in 0..<DependencyIndex.fewest {
            guard let edge = unsafe edges.next() else { return nil }
            if unsafe edge.pointee.leads(to: dependency) { return unsafe edge }
        }
        let index = DependencyIndex(of: dependencyList)
        ensureRareExtras().dependencyIndex = index
        return unsafe index.edges[ObjectIdentifier(dependency)]
    }

    /// Whether an unfinished dependency is on the list. The caller holds both locks.
    private func dependsAlready(on dependency: Operation) -> Bool {
        // An operation that has finished counts no dependencies, so it is not on the dependency's list.
        if loadState().has(State.finishing | State.finished) { return unsafe edge(to: dependency) != nil }
        // Walk both lists in step, until the shorter one ends.
        var mine = dependencyList.makeIterator()
        var other = unsafe dependency.dependentList.first
        while let edge = unsafe mine.next() {
            if unsafe edge.pointee.leads(to: dependency) { return true }
            guard let otherEdge = unsafe other else { return false }
            if unsafe otherEdge.pointee.comes(from: self) { return true }
            unsafe other = otherEdge.pointee.nextDependent
        }
        return false
    }

    /// The cycle that a dependency on one of `first` closes or would close. The path starts and ends with this operation. Nil if there is
    /// no cycle.
    func cyclePath(through first: [Operation]) -> [Operation]? {
        guard loadState().has(State.hasDependents) else { return nil }
        var cameFrom = Dictionary(first.map { (ObjectIdentifier($0), self) }, uniquingKeysWith: { one, _ in one })
        var pending = first
        while let next = pending.popLast() {
            for dependency in next.storedDependencies where !dependency.isFinished {
                if dependency === self {
                    var path = [self]
                    var step = next
                    while step !== self {
                        path.append(step)
                        step = cameFrom[ObjectIdentifier(step)] ?? self
                    }
                    return [self] + path.reversed()
                }
                if cameFrom[ObjectIdentifier(dependency)] == nil {
                    cameFrom[ObjectIdentifier(dependency)] = next
                    pending.append(dependency)
                }
            }
        }
        return nil
    }
}
