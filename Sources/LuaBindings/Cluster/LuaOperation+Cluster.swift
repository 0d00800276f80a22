import CLua
import Glibc
import OpCluster
@_spi(Subclassing) import OpEngine

/// Operations that run on a cluster. In this process, such an operation executes from its departure to its return, and no thread waits for
/// it.
extension LuaOperation {
    var ticket: ClusterTicket? { rare { $0.ticket } }

    /// The executor of the queue, if the queue uses a cluster.
    var clusterExecutor: ClusterExecutor? { queue?.underlyingQueue as? ClusterExecutor }

    /// Whether the queue's executor is a cluster's. The operation, which is about to start, then gets a ticket.
    func takeTicket() -> Bool {
        guard let clusterExecutor, memberQueue == nil else { return false }
        withFields { $0.rareInUse.ticket = ClusterTicket(clusterExecutor) }
        return true
    }

    /// Sends the bodies to a worker.
    func leave(with ticket: ClusterTicket) {
        let executor = ticket.executor
        // A wait for the operation is not stuck: a message ends the wait.
        core.engine.hold()
        executor.operationDidStart()
        let (bodies, step) = takeBodies()
        do throws(Failure) {
            guard let state = core.stateOfCurrentThread() else { throw Failure(message: "not enough memory for a Lua state") }
            var finishStep: (@Sendable () -> Void)?
            var files: ClusterFiles?
            if let step, case .one(let body) = bodies {
                guard let finish = begin(body, of: step) else { return complete(ticket) }
                finishStep = finish
                files = executor.connection.files(of: step)
            }
            let (payload, failures) = try payload(of: bodies, files, in: state, executor.connection)
            ticket.hasSent(failures)
            var task = Coordinator.Task(payload)
            task.priority = queuePriority.clusterPriority
            task.queue = executor.queueName
            task.isAtMostOnce = executor.delivery.isAtMostOnce
            task.maximumDeliveries = executor.delivery.maximumDeliveries
            submit(task, ticket, files, finishStep)
        } catch { fail(error, error.failureKind, ticket) }
    }

    private func submit(
        _ task: Coordinator.Task, _ ticket: ClusterTicket, _ files: ClusterFiles?, _ finishStep: (@Sendable () -> Void)?
    ) {
        let connection = ticket.executor.connection
        var handlers = Coordinator.Handlers { [self] outcome in
            // The thread that receives messages has no Lua state, and must not wait for a file.
            if finishStep != nil || hasAttemptsLeft {
                connection.run { [self] in finish(as: outcome, ticket, files, finishStep) }
            } else {
                finish(as: outcome, ticket, files, nil)
            }
        }
        let output = core.output, marksOutput = connection.marksOutput
        let marks = [LineMarks(), LineMarks()]
        handlers.output = { stream, bytes, worker in
            guard stream == 1 || stream == 2 else { return }
            let lines = marksOutput ? marks[Int(stream) - 1].mark(bytes, with: "[\(worker?.name ?? "?")] ") : bytes
            unsafe lines.withUnsafeBytes { unsafe output.write($0, to: Int32(stream)) }
        }
        let number = connection.coordinator.submit(task, handlers) { number in
            if let files { connection.setInputs(files.inputs, of: number) }
        }
        ticket.isSubmitted(as: number)
        // A stop that was requested before the ticket existed has not reached it.
        if stopReason != nil { ticket.interrupt() } else if isCancelled { ticket.cancel() }
    }

    // MARK: leaving

    private func payload(
        of bodies: SmallArray<Body>, _ files: ClusterFiles?, in state: LuaState, _ connection: ClusterConnection
    ) throws(Failure) -> (Payload, failures: [OperationFailure]) {
        let setup = try connection.setup(in: state)
        try core.prepare(state)
        var parcels: [Parcel] = []
        for body in bodies {
            let parcel = try parcel(of: body)
            if case .hostCall(_, let arguments) = body {
                parcels.append(try unsafe state.add(FlatValues(arguments), to: parcel.pointer))
            } else {
                parcels.append(parcel)
            }
        }
        var writer = try WireWriter(
            for: self, describedName(with: parcels), describesOwner: true, remembersCode: true, frozenValues: connection.frozenValues)
        writer.blob(setup)
        try writer.optional(name) { writer, name throws(Failure) in writer.text(name) }
        try writer.optional(queue?.givenName) { writer, name throws(Failure) in writer.text(name) }
        writer.number(Int(queuePriority.clusterPriority))
        writer.number(attempt)
        writer.flag(hasAttemptsLeft)
        try writer.optional(timeLimit?.seconds) { writer, seconds throws(Failure) in writer.seconds(seconds) }
        let memory = memoryLimit ?? (core.operationMemoryLimit > 0 ? core.operationMemoryLimit : nil)
        try writer.optional(memory) { writer, bytes throws(Failure) in writer.number(bytes) }
        try writer.storage(storage)
        // A body finds its dependencies only in the operation that it is passed.
        let takesOperation = parcels.contains { unsafe clua_wire_has_parameters($0.pointer) }
        let dependencies =
            takesOperation ? dependencies.compactMap { $0 as? LuaOperation }.filter { $0.kind != .group && $0.isFinished } : []
        writer.number(dependencies.count)
        for dependency in dependencies { try writer.finished(dependency) }
        writer.number(parcels.count)
        for parcel in parcels { try writer.parcel(parcel, CLUA_BODY) }
        try writer.optional(files) { writer, files throws(Failure) in files.write(to: &writer) }
        return (try writer.finish(), writer.failures)
    }

    /// The name of the operation for messages. The place of its function identifies an operation without a name.
    private func describedName(with parcels: [Parcel]) -> String {
        guard name == nil, let parcel = parcels.first, let place = unsafe clua_wire_place(parcel.pointer) else { return displayName }
        return "\(displayName) \(unsafe String(cString: place))"
    }

    // MARK: coming back

    private func finish(
        as outcome: Coordinator.Outcome, _ ticket: ClusterTicket, _ files: ClusterFiles?, _ finishStep: (@Sendable () -> Void)?
    ) {
        if files != nil { ticket.releaseFiles() }
        switch outcome {
        case .ended(let payload, let worker, let began, let ended):
            if let worker { recordRun(elsewhere: worker.label, slots: worker.slots, began: began, ended: ended) }
            do throws(Failure) {
                if let failure = try apply(payload, ticket, files) {
                    // The worker does not know why it was told to stop the body.
                    if failure.kind == .interrupted, let reason = stopReason {
                        return fail(Failure(interrupt: failure, by: reason), reason.failureKind, ticket)
                    }
                    return complete(ticket, failure)
                }
                finishStep?()
                complete(ticket, seconds: ended - began)
            } catch { fail(error, .error, ticket) }
        case .stopped:
            if let reason = stopReason { return fail(Failure(stop: reason), reason.failureKind, ticket) }
            complete(ticket)
        case .lost(let workers):
            let list = workers.joined(separator: ", ")
            fail(Failure(message: "\(displayName) was lost with its worker\(workers.count == 1 ? "" : "s"): \(list)"), .lost, ticket)
        case .refused(let reason): fail(Failure(message: reason), .lost, ticket)
        }
    }

    /// Applies the outcome that the worker has sent. Returns the failure if there is one.
    private func apply(
        _ payload: Payload, _ ticket: ClusterTicket, _ files: ClusterFiles?
    ) throws(Failure) -> OperationFailure? {
        var reader = try WireReader(
            payload.bytes, payload.contents, for: self, core: core, ticket.executor.connection.frozenValues, isFromWorker: true)
        // A worker cancels an operation that it was told to stop. Here, a timeout ends only the attempt, if another one follows.
        if try reader.flag(), stopReason != .timeout || !hasAttemptsLeft { cancelItself() }
        let values = try reader.list { reader throws(Failure) in
            (name: try reader.text(), value: try reader.optional { reader throws(Failure) in try reader.parcel() })
        }
        for (name, value) in values { store(value, as: name) }
        ticket.markRead(try reader.list { reader throws(Failure) in try reader.number() })
        for failure in try reader.list({ reader throws(Failure) in try reader.failure() }) {
            core.record(OperationFailure(received: failure, value: nil, of: nil))
        }
        if try reader.flag() {
            let failure = try reader.failure()
            let value = try reader.optional { reader throws(Failure) in try reader.parcel() }
            return OperationFailure(received: failure, value: value, of: self)
        }
        let count = try reader.number()
        guard count <= max(1, storedResults.count) else { throw WireReader.malformed }
        for index in 0..<count {
            guard let results = try reader.optional({ reader throws(Failure) in try reader.parcel() }) else { continue }
            keep(results)
            setResults(.parcel(results), ofBodyAt: index)
        }
        let made = try reader.list { reader throws(Failure) in
            SentFile(path: try reader.text(), mode: mode_t(truncatingIfNeeded: try reader.number()), blob: try reader.blob())
        }
        let folder = ClusterFiles.workingDirectory
        // A worker may make only the files that it was asked for.
        for file in made where files?.outputs.contains(file.path) ?? false { try file.write(below: folder) }
        return nil
    }

    private func fail(_ failure: Failure, _ kind: OperationFailure.Kind, _ ticket: ClusterTicket) {
        complete(ticket, OperationFailure(failure, kind: kind, of: self))
    }

    private func complete(_ ticket: ClusterTicket, _ failure: OperationFailure? = nil, seconds: Double? = nil) {
        if let failure, !isAsynchronous || withFields({ !$0.isEnding }) { record(failure) }
        guard ticket.claimEnd() else { return }
        let core = core
        if !isAsynchronous || claimEnd() { end() }
        ticket.executor.operationDidFinish(seconds)
        core.engine.release()
    }
}

extension Operation.QueuePriority {
    /// The number of the priority in a cluster's messages.
    var clusterPriority: UInt8 {
        switch self {
        case .veryLow: 0
        case .low: 1
        case .normal: 2
        case .high: 3
        case .veryHigh: 4
        }
    }

    /// The priority with a number; `normal` for an unknown number.
    init(clusterPriority number: Int) {
        self = [.veryLow, .low, .normal, .high, .veryHigh].first { $0.clusterPriority == number } ?? .normal
    }
}
