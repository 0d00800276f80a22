extension Operation {
    /// What `dependencies` is, whatever a subclass says.
    var listed: [Operation] {
        lock.withLock { listedDependencies }
    }

    /// With `lock` held.
    private var listedDependencies: [Operation] {
        var all: [Operation] = []
        var edges = dependencyList.makeIterator()
        while let edge = unsafe edges.next() {
            // Safety: an edge on the list retains its dependency.
            if let dependency = unsafe edge.pointee.dependency { unsafe all.append(dependency.takeUnretainedValue()) }
        }
        return all
    }

    /// Whether all that it depends on has finished. Who has ended the last of them is about to note that in its state: a moment that nobody
    /// is to see who knows of that end, except for observers, who are told then. Not where its policy asks for success and there was none:
    /// that one cancels it.
    @inline(never)
    var waitsForNobody: Bool {
        if ThreadContext.current.readsAsRecorded { return false }
        return lock.withLock {
            let needsSuccess = loadState().has(State.requiresSuccess)
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
    /// `addDependency`, but throws `OperationError.dependsOnItself` and `.dependencyCycle`, and then changes nothing.
    ///
    /// The check costs O(1) unless something already depends on this operation; else it visits what `operation` waits for.
    public func tryAddDependency(_ operation: Operation) throws {
        guard operation !== self else { throw OperationError.dependsOnItself(operation: label) }
        if let path = cyclePath(through: [operation]) { throw OperationError.dependencyCycle(path: path.map(\.label)) }
        link(to: operation)
    }
}

extension Operation {
    func unlink(from operation: Operation) {
        let wasCounted = lock.withLock { () -> Bool? in
            guard let edge = unsafe edge(to: operation) else { return nil }
            let mailbox = observedMailbox
            let old = mailbox == nil ? [] : listedDependencies
            let wasCounted = unsafe edge.pointee.isCounted && DependentList.remove(edge)
            if rareExtras?.dependencyIndex == nil {
                unsafe dependencyList.remove(edge)
            } else {
                unsafe removeIndexed(edge, to: operation)
            }
            mailbox?.record(.dependencies, old: old, new: listedDependencies)
            return wasCounted
        }
        guard let wasCounted else { return }
        if wasCounted && transition({ $0.dependencyRemoved() }) { postToQueue() }
        if let outcome = operation.outcome, outcome != .succeeded { forgetFailedDependency() }
        // Safety: balances the retain of the edge; the caller's reference keeps it alive here.
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
            var last = dependency.loadState()
            if !last.has(State.finished) {
                dependency.dependentsLock.withLock {
                    last = dependency.expectDependents()
                    if last.has(State.finished) || dependsAlready(on: dependency) { return }
                    unsafe dependency.dependentList.append(list(dependency))
                    action = transition { $0.dependencyAdded() }
                }
            }
            // Nothing counts it, and its own list stays as it is.
            if last.has(State.finished) { mustCancel = listFinished(dependency, last.outcome) }
        }
        if mustCancel { cancelBecauseOfDependency() }
        if action == .recall { withQueueCore { $0.recall(self) } }
        deliverChanges()
    }

    /// Before a dependent is added, with `dependentsLock` held: returns a state after which the end, if that has not come, will look for
    /// dependents. It looks when it has been published, and with the lock; so it finds all that are added where this says not finished.
    @inline(__always)
    private func expectDependents() -> State {
        let now = loadState()
        if now.has(State.hasDependents) { return now }
        return transition { state in
            state.set(State.hasDependents)
            return state
        }
    }

    /// A new edge at the end of the own list. With `lock` held.
    @inline(__always)
    private func list(_ dependency: Operation) -> UnsafeMutablePointer<DependencyEdge> {
        let edge = unsafe dependencyList.append(dependency, of: self)
        unsafe rareExtras?.dependencyIndex?.edges[ObjectIdentifier(dependency)] = edge
        if let mailbox = observedMailbox {
            mailbox.record(.dependencies, old: Array(listedDependencies.dropLast()), new: listedDependencies)
        }
        return unsafe edge
    }

    /// Lists a dependency that has finished, unless it is listed. With `lock` held. True: the policy asks for cancelling this operation.
    private func listFinished(_ dependency: Operation, _ outcome: Outcome) -> Bool {
        // The flag is set for every edge: without it there is none, and nothing to look through.
        if dependency.loadState().has(State.hasDependents) {
            if lists(dependency) { return false }
        } else {
            dependency.transition { $0.set(State.hasDependents) }
        }
        unsafe _ = list(dependency)
        if outcome == .succeeded { return false }
        return transition { state in
            state.set(State.dependencyFailed)
            return state.mustCancel && state.has(State.linked)
        }
    }

    /// Whether a dependency is listed. With `lock` held. O(1) on average.
    private func lists(_ dependency: Operation) -> Bool { unsafe edge(to: dependency) != nil }

    /// The edge to a dependency that is listed. With `lock` held. O(1) on average, however many there are: when many have been looked
    /// through they get an index.
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

    /// Takes an edge off the own list and the index. With `lock` held.
    private func removeIndexed(_ edge: UnsafeMutablePointer<DependencyEdge>, to dependency: Operation) {
        unsafe edge.pointee.dependency = nil
        if rareExtras?.dependencyIndex?.remove(dependency) ?? false { dependencyList.freeEmptyBlocks() }
    }

    /// Whether a dependency that has not finished is listed. With both locks held.
    private func dependsAlready(on dependency: Operation) -> Bool {
        // One that has ended counts nothing any more, so it is not on the other list.
        if loadState().has(State.finishing | State.finished) { return lists(dependency) }
        // Looks at both lists in step, until the shorter one ends.
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

    /// The cycle that a dependency on one of `first` closes or would close, beginning and ending with this operation; nil when there
    /// is none.
    func cyclePath(through first: [Operation]) -> [Operation]? {
        guard loadState().has(State.hasDependents) else { return nil }
        var cameFrom = Dictionary(first.map { (ObjectIdentifier($0), self) }, uniquingKeysWith: { one, _ in one })
        var pending = first
        while let next = pending.popLast() {
            for dependency in next.listed where !dependency.isFinished {
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
