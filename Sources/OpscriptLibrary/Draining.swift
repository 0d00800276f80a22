public import COpscript
import LuaBindings
import OpEngine

/// The functions that run work for the main state, and those for all operations of a runtime.

/// `opscript_drain`
@_cdecl("opscript_drain")
public func drain(
    _ runtime: OpaquePointer?, _ limit: Int, _ seconds: Double, _ more: UnsafeMutablePointer<Bool>?, _ error: ErrorPlace?
) -> Bool {
    entering(runtime, "opscript_drain", error) { runtime in
        // A size_t beyond the greatest Int, which is negative here, is no limit.
        let isLeft = try runtime.drain(limit: limit > 0 ? limit : nil, for: try duration(seconds, "the time"))
        more?.pointee = isLeft
    }.isDone
}

/// `opscript_wake_descriptor`
@_cdecl("opscript_wake_descriptor")
public func wakeDescriptor(_ runtime: OpaquePointer?) -> CInt {
    guard let runtime = object(runtime, as: Runtime.self), !runtime.isClosed else { return -1 }
    return runtime.wakeDescriptor
}

/// `opscript_set_wake`
@_cdecl("opscript_set_wake")
public func setWake(
    _ runtime: OpaquePointer?, _ wake: opscript_notice?, _ userData: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?
) -> Bool {
    let data = UserData(userData, destroy)
    guard let runtime = object(runtime, as: Runtime.self), !runtime.isClosed else { return false }
    runtime.onWake = wake.map { notice($0, data) }
    return true
}

/// `opscript_finish`
@_cdecl("opscript_finish")
public func finish(_ runtime: OpaquePointer?, _ error: ErrorPlace?) -> OpaquePointer? {
    entering(runtime, "opscript_finish", error) { runtime in
        let ending = try runtime.finish()
        if ending.wasInterrupted { throw Ended.interrupted }
        let failures = ending.unreadFailures.map { "\($0.operationDescription) failed: \($0.report)" }
        return retained(ListObject((failures + ending.stuckOperations + ending.failedPrograms).map { .string($0) }))
    }
}

/// `opscript_cancel_all`
@_cdecl("opscript_cancel_all")
public func cancelAll(_ runtime: OpaquePointer?) { object(runtime, as: Runtime.self)?.cancelAllOperations() }

/// `opscript_interrupt_all`
@_cdecl("opscript_interrupt_all")
public func interruptAll(_ runtime: OpaquePointer?) { object(runtime, as: Runtime.self)?.interruptAllOperations() }

/// `opscript_unfinished_count`
@_cdecl("opscript_unfinished_count")
public func unfinishedCount(_ runtime: OpaquePointer?) -> Int { object(runtime, as: Runtime.self)?.unfinishedOperationCount ?? 0 }
