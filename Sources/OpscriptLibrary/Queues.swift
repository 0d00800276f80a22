import LuaBindings
import OpEngine

/// The queue at an address; nil for NULL.
private func queue(_ reference: OpaquePointer?) -> OperationQueue? { object(reference) }

/// `opscript_queue_new`
@_cdecl("opscript_queue_new")
public func newQueue(_ runtime: OpaquePointer?, _ error: ErrorPlace?) -> OpaquePointer? {
    makeQueue(runtime, "opscript_queue_new", error) { OperationQueue(engine: $0) }
}

/// `opscript_queue_main`
@_cdecl("opscript_queue_main")
public func mainQueue(_ runtime: OpaquePointer?, _ error: ErrorPlace?) -> OpaquePointer? {
    makeQueue(runtime, "opscript_queue_main", error) { $0.mainQueue }
}

private func makeQueue(
    _ runtime: OpaquePointer?, _ function: String, _ error: ErrorPlace?, _ make: (Engine) -> OperationQueue
) -> OpaquePointer? {
    reporting(function, to: error) {
        let runtime: Runtime = try require(runtime, "runtime")
        if runtime.isClosed { throw Misuse("the runtime is closed") }
        return retained(make(runtime.engine))
    }
}

/// `opscript_queue_free`
@_cdecl("opscript_queue_free")
public func freeQueue(_ reference: OpaquePointer?) { release(reference, as: OperationQueue.self) }

/// `opscript_queue_set_name`
@_cdecl("opscript_queue_set_name")
public func setName(queue reference: OpaquePointer?, _ name: UnsafePointer<CChar>?) {
    queue(reference)?.name = name.map { String(cString: $0) }
}

/// `opscript_queue_get_name`
@_cdecl("opscript_queue_get_name")
public func getName(queue reference: OpaquePointer?) -> UnsafeMutablePointer<CChar>? { duplicate(queue(reference)?.name) }

/// `opscript_queue_set_maximum`
@_cdecl("opscript_queue_set_maximum")
public func setMaximum(_ reference: OpaquePointer?, _ count: CInt, _ error: ErrorPlace?) -> Bool {
    reporting("opscript_queue_set_maximum", to: error) {
        let queue: OperationQueue = try require(reference, "queue")
        try queue.trySetMaxConcurrentOperationCount(Int(count))
    }.isDone
}

/// `opscript_queue_get_maximum`
@_cdecl("opscript_queue_get_maximum")
public func getMaximum(_ reference: OpaquePointer?) -> CInt {
    queue(reference).map { CInt(clamping: $0.maxConcurrentOperationCount) } ?? -1
}

/// `opscript_queue_set_suspended`
@_cdecl("opscript_queue_set_suspended")
public func setSuspended(_ reference: OpaquePointer?, _ suspended: Bool) { queue(reference)?.isSuspended = suspended }

/// `opscript_queue_is_suspended`
@_cdecl("opscript_queue_is_suspended")
public func isSuspended(_ reference: OpaquePointer?) -> Bool { queue(reference)?.isSuspended ?? false }

/// `opscript_queue_add`
@_cdecl("opscript_queue_add")
public func add(queue reference: OpaquePointer?, _ operation: OpaquePointer?, _ error: ErrorPlace?) -> Bool {
    reporting("opscript_queue_add", to: error) {
        let queue: OperationQueue = try require(reference, "queue")
        try queue.tryAddOperation(try require(operation, "operation"))
    }.isDone
}

/// `opscript_queue_count`
@_cdecl("opscript_queue_count")
public func operationCount(_ reference: OpaquePointer?) -> Int { queue(reference)?.operationCount ?? 0 }

/// `opscript_queue_cancel_all`
@_cdecl("opscript_queue_cancel_all")
public func cancelAll(queue reference: OpaquePointer?) { queue(reference)?.cancelAllOperations() }

/// `opscript_queue_wait`
@_cdecl("opscript_queue_wait")
public func wait(queue reference: OpaquePointer?, _ deadline: Double, _ error: ErrorPlace?) -> Bool {
    reporting("opscript_queue_wait", to: error) {
        let queue: OperationQueue = try require(reference, "queue")
        guard try queue.tryWaitUntilAllOperationsAreFinished(until: try end(of: deadline)) else { throw Ended.timedOut }
    }.isDone
}
