import CLua
import OpCluster
@_spi(Subclassing) import OpEngine
import Synchronization

/// Writes the blob of `ClusterConnection.setup`, and reads it.
enum ClusterSetup {
    struct Settings {
        let showsWarnings: Bool
        let randomSeed: UInt64?
        let stateMemoryLimit: Int?
        /// The script's working directory.
        let directory: String
    }

    /// The coordinator's setup for workers. `state` is the calling thread's.
    static func blob(of core: RuntimeCore, _ published: RuntimeCore.Shared) throws(Failure) -> Blob {
        var settings = ByteWriter()
        settings.byte(core.showsWarnings.load(ordering: .relaxed) ? 1 : 0)
        settings.text(core.randomSeed.map { "\($0)" } ?? "")
        settings.number(core.stateMemoryLimit ?? 0)
        settings.text(ClusterFiles.workingDirectory)
        var writer = try WireWriter(for: nil, "the prelude", usesBlobs: false, remembersCode: true)
        for setting in [published.paths, published.loaders] {
            try writer.optional(setting) { writer, setting throws(Failure) in try writer.parcel(setting) }
        }
        writer.number(published.preludes.count)
        for prelude in published.preludes {
            writer.text(prelude.label)
            try writer.parcel(prelude.body, CLUA_BODY)
        }
        return Blob(copying: settings.bytes + (try writer.bytes()))
    }

    /// Decodes the settings, with which a worker makes its runtime. `apply` decodes the rest.
    static func settings(in blob: Blob) throws(Failure) -> (Settings, rest: ArraySlice<UInt8>) {
        var reader = ByteReader(blob.copy[...])
        do {
            let showsWarnings = try reader.byte() != 0, seed = UInt64(try reader.text()), limit = try reader.count()
            let settings = Settings(
                showsWarnings: showsWarnings, randomSeed: seed, stateMemoryLimit: limit > 0 ? limit : nil, directory: try reader.text())
            return (settings, rest: try reader.remainder())
        } catch { throw WireReader.malformed }
    }

    /// Applies the settings and the preludes to a worker's runtime. Returns the number of preludes in the blob.
    static func apply(_ blob: Blob, to core: RuntimeCore, skippingPreludes known: Int) throws(Failure) -> Int {
        var reader = try WireReader(settings(in: blob).rest, core: core)
        if let paths = try reader.optional({ reader throws(Failure) in try reader.parcel() }) { core.publish(paths: paths) }
        if let loaders = try reader.optional({ reader throws(Failure) in try reader.parcel() }) { core.publish(loaders: loaders) }
        let preludes = try reader.list { reader throws(Failure) in
            let label = try reader.text()
            return Prelude(body: try reader.parcel(), label: label)
        }
        for prelude in preludes.dropFirst(known) { core.add(prelude) }
        return preludes.count
    }
}

/// Makes an operation of a worker from a task, and the coordinator's outcome from that operation.
enum ClusterOutcome {
    /// The parts of a task.
    struct Received {
        let operation: LuaOperation
        /// The name of its queue.
        let queue: String?
        /// The files that the operation uses; nil if it has none.
        let files: ClusterFiles?
        /// The errors of other operations that the body may read.
        let failures: [OperationFailure]
    }

    /// Makes the operation that a task describes. The first blob is the setup. See `LuaOperation.payload`.
    static func operation(
        of task: WorkerTask, core: RuntimeCore, memoryLimit: Int?, _ frozenValues: FrozenValues
    ) throws(Failure) -> Received {
        var reader = try WireReader(task.bytes, task.blobs, for: nil, core: core, frozenValues, isFromWorker: false)
        guard let operation = reader.owner else { throw WireReader.malformed }
        _ = try reader.blob()
        operation.name = try reader.optional { reader throws(Failure) in try reader.text() }
        let queue = try reader.optional { reader throws(Failure) in try reader.text() }
        operation.queuePriority = Operation.QueuePriority(clusterPriority: try reader.number())
        let attempt = try reader.number()
        if attempt > 1 { operation.continueAttempts(at: attempt) }
        if try reader.flag() { operation.withFields { $0.rareInUse.isTriedAgainElsewhere = true } }
        let timeout = try reader.optional { reader throws(Failure) in try reader.seconds() }
        let memory = try reader.optional { reader throws(Failure) in try reader.number() }
        for (name, value) in try reader.storage() { operation.store(value, as: name) }
        let dependencies = try reader.list { reader throws(Failure) in try reader.finished() }
        var bodies: [LuaOperation.Body] = []
        for _ in 0..<(try reader.number()) {
            let parcel = try reader.parcel()
            operation.keep(parcel)
            bodies.append(.parcel(parcel))
        }
        operation.withFields { [bodies] fields in
            fields.changeBodies { $0 = SmallArray(bodies) }
            fields.blockCount = UInt32(bodies.count)
        }
        operation.keepsMore()
        if let timeout { operation.timeout = timeout }
        operation.memoryLimit = [memory, memoryLimit].compactMap(\.self).min()
        for dependency in dependencies { operation.addDependency(dependency) }
        let files = try reader.optional { reader throws(Failure) in try ClusterFiles(&reader) }
        return Received(operation: operation, queue: queue, files: files, failures: reader.failures)
    }

    /// The outcome of an operation that has finished.
    ///
    /// - Parameters:
    ///   - before: the values that were stored in it when it began.
    ///   - failures: the errors that it may have read.
    ///   - others: the failures of operations that bodies have made here, which no code has read.
    ///   - files: the files that it has made, if they must be sent.
    static func payload(
        of operation: LuaOperation, before: [String: Parcel], _ failures: [OperationFailure], others: [OperationFailure], files: [SentFile],
        _ frozenValues: FrozenValues
    ) -> Payload {
        do throws(Failure) {
            var writer = try WireWriter(for: operation, operation.displayName, frozenValues: frozenValues)
            try write(operation, before: before, failures, others, files, to: &writer)
            return try writer.finish()
        } catch { return failure(error, isCancelled: operation.isCancelled) }
    }

    private static func write(
        _ operation: LuaOperation, before: [String: Parcel], _ failures: [OperationFailure], _ others: [OperationFailure],
        _ files: [SentFile], to writer: inout WireWriter
    ) throws(Failure) {
        writer.flag(operation.isCancelled)
        let after = operation.storage
        let changed = Set(before.keys).union(after.keys).filter { name in
            guard let old = before[name], let new = after[name] else { return true }
            return unsafe old.pointer != new.pointer
        }
        writer.number(changed.count)
        for name in changed.sorted() {
            writer.text(name)
            try writer.optional(after[name]) { writer, value throws(Failure) in try writer.parcel(value) }
        }
        let read = failures.indices.filter { failures[$0].isRead }
        writer.number(read.count)
        for index in read { writer.number(index) }
        writer.number(others.count)
        for failure in others { try writer.failure(failure) }
        let error = operation.error as? OperationFailure
        writer.flag(error != nil)
        if let error {
            try writer.failure(error)
            return try writer.optional(error.value) { writer, value throws(Failure) in try writer.parcel(value) }
        }
        let results = operation.storedResults
        writer.number(results.count)
        for result in results {
            try writer.optional(result) { writer, result throws(Failure) in try writer.parcel(result.parcel, CLUA_RESULTS) }
        }
        writer.number(files.count)
        for file in files {
            writer.text(file.path)
            writer.number(Int(file.mode))
            writer.blob(file.blob)
        }
    }

    /// The outcome of a task that could not begin, or whose outcome cannot be sent.
    static func failure(_ failure: Failure, isCancelled: Bool = false) -> Payload {
        do throws(Failure) { return try payload(of: failure, isCancelled) } catch {
            fatalError("opscript bug: an error that cannot be sent")
        }
    }

    private static func payload(of failure: Failure, _ isCancelled: Bool) throws(Failure) -> Payload {
        var writer = try WireWriter(for: nil, "an error")
        writer.flag(isCancelled)
        for _ in 0..<3 { writer.number(0) }
        writer.flag(true)
        writer.text(failure.message)
        writer.text(failure.traceback)
        writer.text(OperationFailure.Kind.error.rawValue)
        for _ in 0..<5 { writer.flag(false) }
        return try writer.finish()
    }
}
