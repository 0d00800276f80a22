import OpEngine

/// The places of programs among those of the running operations.
extension LuaState {
    /// Whether the operation that runs here waits for `process` in its place: it has started the process, on a worker.
    private func waitsInPlace(for process: ChildProcess) -> Bool {
        process.slots > 0 && process.belongs(to: currentOperation) && Worker.current?.engine === core.engine
    }

    /// Waits for something that `process` does. If the operation that runs here has started the process, the process has the operation's place
    /// meanwhile, unless it has no slots. See `wait(deadline:endsWhenCancelled:inPlace:until:)`.
    func wait(
        for process: ChildProcess, deadline: ContinuousClock.Instant?, endsWhenCancelled: Bool, until predicate: () -> Bool
    ) throws(CallError) -> Inbox.Outcome {
        guard process.isRunning, waitsInPlace(for: process) else {
            return try wait(deadline: deadline, endsWhenCancelled: endsWhenCancelled, until: predicate)
        }
        core.programs.holds(process, for: currentOperation, inbox, core.io)
        defer { if core.programs.holdsNoMore(process, inbox) { core.engine.endReplacingWorker() } }
        return try wait(deadline: deadline, endsWhenCancelled: endsWhenCancelled, inPlace: true, until: predicate)
    }

    /// Waits until the operation that runs here may start `process`. Outside of operations and of workers, processes need no places.
    ///
    /// - Returns: the number of places that the process has besides the worker's own. They must be given back.
    func takePlaces(for process: ChildProcess) throws(CallError) -> Int {
        guard process.slots > 0, let operation = currentOperation, let worker = Worker.current, worker.engine === core.engine else {
            return 0
        }
        let count = min(process.slots, core.engine.placeCount)
        guard let request = core.engine.takePlaces(count, for: worker) else { return count - 1 }
        core.programs.waits(operation, count, for: process.name)
        defer { core.programs.waitsNoMore(operation) }
        // A callback that waits would keep the places that the request is granted meanwhile.
        do throws(CallError) { _ = try wait(deadline: nil, runsCallbacks: false) { request.isGranted } } catch {
            core.engine.withdraw(request)
            throw error
        }
        // The program of a cancelled operation is ended at once, and needs no places.
        guard request.isGranted else {
            core.engine.withdraw(request)
            return 0
        }
        core.engine.claim(request)
        return count - 1
    }

    /// The time without the end of any program after which a lack of descriptors or processes is an error.
    private static let longestShortage = Duration.seconds(60)

    /// Calls `start` again after the end of another program, as long as the system lacks descriptors or processes while other programs run.
    func retryingAtShortage(_ start: () throws(Failure) -> Void) throws(CallError) {
        while true {
            let ended = core.programs.endedCount
            do throws(Failure) { return try Engine.inPlace(start) } catch {
                // The one that does not start counts as running.
                guard error.isShortage, core.programs.runningCount > 1 else { throw CallError(error) }
                core.programs.wakeAtEnd(inbox)
                defer { core.programs.wakeNoMore(inbox) }
                let outcome = try wait(deadline: .now + Self.longestShortage, inPlace: true) { core.programs.endedCount != ended }
                if outcome == .timedOut || currentOperation?.isCancelled ?? false { throw CallError(error) }
            }
        }
    }
}
