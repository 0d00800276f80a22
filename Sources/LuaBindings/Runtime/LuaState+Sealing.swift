import CLua
import OpEngine

/// Operations that leave the state by reference.
extension LuaState {
    /// Seals the operations that leave this state by reference while they are in no queue: copies their functions, because another state
    /// may add them.
    func seal(referencesOf parcel: UnsafePointer<clua_parcel>) {
        for index in 0..<(unsafe clua_parcel_reference_count(parcel)) {
            let reference = unsafe clua_parcel_reference(parcel, index).pointee
            guard unsafe reference.kind == ObjectKind.operation.rawValue, let pointer = unsafe reference.object,
                let operation = unsafe object(pointer, as: Operation.self) as? LuaOperation, operation.needsSealing(from: self)
            else { continue }
            unsealed.append(operation)
        }
        // A body may refer to further operations. A list instead of recursion allows chains of any length.
        guard !isSealing else { return }
        isSealing = true
        while let operation = unsealed.popLast() {
            if operation.needsSealing(from: self) { operation.seal(in: self) }
        }
        isSealing = false
    }

    /// Keeps the handle of `object`, and the functions in it, alive until `unpin`.
    ///
    /// - Parameter handle: the stack index of the handle in the current call, or 0 to look it up.
    func pin(_ object: AnyObject, _ kind: ObjectKind, handleAt handle: Int32 = 0) throws(Failure) {
        let pointer = unsafe Unmanaged.passUnretained(object).toOpaque()
        try unsafe attempt { lua, failure in unsafe clua_pin(lua, pointer, kind.rawValue, handle, &failure) }
        hasPinned()
    }

    func unpin(_ object: AnyObject) {
        checkThread()
        guard !isClosed else { return }
        unsafe clua_unpin(running, Unmanaged.passUnretained(object).toOpaque())
        hasUnpinned()
    }

    /// Unpins the handle of `operation` when nothing else refers to the operation any more.
    func watch(_ operation: LuaOperation) throws(Failure) {
        unsafe sealed.insert(Unmanaged.passUnretained(operation).toOpaque())
        guard !watchesCollections else { return }
        try unsafe attempt { lua, failure in unsafe clua_watch_collections(lua, &failure) }
        watchesCollections = true
    }

    func isWatching(_ operation: LuaOperation) -> Bool { unsafe sealed.contains(Unmanaged.passUnretained(operation).toOpaque()) }

    /// Stops watching `operation`, because its handle is no longer pinned for having left the state.
    func unwatch(_ operation: LuaOperation) {
        if unsafe !sealed.isEmpty { unsafe sealed.remove(Unmanaged.passUnretained(operation).toOpaque()) }
    }

    /// Unseals the watched operations that no queue, state, parcel or host can reach any more. Called after a garbage collection. Returns
    /// whether others remain.
    func releaseUnreferenced(_ lua: OpaquePointer) -> Bool {
        guard !isClosed else { return false }
        unsafe whileRunning(lua) {
            let pointers = unsafe sealed.map { unsafe $0 }
            for index in unsafe pointers.indices where unsafe isHeldByHandleOnly(pointers[index]) {
                unsafe object(pointers[index], as: LuaOperation.self).unseal(in: self)
            }
        }
        watchesCollections = unsafe !sealed.isEmpty
        return watchesCollections
    }

    /// Whether the handle here owns the only reference. Then no other thread has one or can get one.
    private func isHeldByHandleOnly(_ pointer: UnsafeMutableRawPointer) -> Bool {
        // Safety: borrows the handle's own reference and gives it back below.
        var operation = unsafe Unmanaged<LuaOperation>.fromOpaque(pointer).takeRetainedValue()
        let isOnly = isKnownUniquelyReferenced(&operation)
        _ = unsafe Unmanaged.passRetained(operation)
        return isOnly
    }
}
