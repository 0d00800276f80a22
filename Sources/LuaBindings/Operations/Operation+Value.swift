import CLua
public import OpEngine
import OpPlatform

extension Operation {
    /// Suspends the task until the operation has finished, and decodes what its body has returned. Blocks no thread, and may be called on
    /// any thread, task or actor.
    ///
    /// ```swift
    /// let words: [String: Int] = try await operation.value()
    /// ```
    ///
    /// A worker of the runtime decodes the result, which costs as much as one more operation.
    ///
    /// - Parameter type: the type of the first result. `LuaDecoder` lists the types that fit.
    /// - Throws: the operation's error; `CancellationError` if the operation or the task was cancelled; a `LuaError` of the kind
    ///   `conversion` if the result does not fit, such as the missing result of an operation that is no `LuaOperation`; a `LuaError` if the
    ///   runtime was closed before.
    public func value<Value: Decodable & Sendable>(as type: Value.Type = Value.self) async throws -> Value {
        try await LuaDecoder().decode(type, from: values().first ?? .nil)
    }

    /// Suspends the task until the operation has finished. Returns all values that its body has returned; none for an operation that is no
    /// `LuaOperation`. Otherwise like `value`.
    public func values() async throws -> [LuaValue] {
        try await finished()
        guard let operation = self as? LuaOperation else { return [] }
        let parcels = operation.results ?? []
        if parcels.allSatisfy({ unsafe $0.pointer.pointee.value_count == 0 }) { return [] }
        return try await operation.decode(parcels)
    }
}

extension LuaOperation {
    /// Decodes parcels of this operation in the state of a worker.
    fileprivate func decode(_ parcels: [Parcel]) async throws -> [LuaValue] {
        let core = core
        let decoded = Guarded<[LuaValue]>([])
        let decoding = BlockOperation {
            guard let state = core.stateOfCurrentThread() else { throw LuaError(message: "not enough memory for a Lua state") }
            try core.prepare(state)
            for parcel in parcels {
                let values = try state.values(of: parcel)
                decoded.withLock { $0 += values }
            }
        }
        do {
            try OperationQueue(engine: core.engine).tryAddOperation(decoding)
            try await decoding.finished()
        } catch let failure as Failure { throw LuaError(failure) } catch is OperationError {
            throw LuaError(message: "the runtime was closed before the results of \(displayName) were read")
        }
        return decoded.withLock { $0 }
    }
}
