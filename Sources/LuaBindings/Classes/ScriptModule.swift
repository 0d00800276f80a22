import CLua
import OpEngine

/// The module `opscript` as scripts see it: its classes and its functions.
enum ScriptModule {
    enum Function: String, Member {
        case now, sleep, after, every, process, sh
    }

    /// What C reads while it makes a state. Made once, never freed.
    // Safety: immutable after this.
    nonisolated(unsafe) static let host: UnsafePointer<clua_host> = {
        unsafe clua_set_object_functions(
            clua_object_functions(
                retain: { pointer in
                    if let pointer = unsafe pointer { _ = unsafe Unmanaged<AnyObject>.fromOpaque(pointer).retain() }
                },
                release: { pointer in
                    if let pointer = unsafe pointer { unsafe Unmanaged<AnyObject>.fromOpaque(pointer).release() }
                }))
        let classes = UnsafeMutablePointer<clua_class>.allocate(capacity: 6)
        unsafe (classes + 0).initialize(to: OperationClass.description)
        unsafe (classes + 1).initialize(to: OperationQueueClass.description)
        unsafe (classes + 2).initialize(to: ErrorClass.description)
        unsafe (classes + 3).initialize(to: TimerClass.description)
        unsafe (classes + 4).initialize(to: ProcessClass.description)
        unsafe (classes + 5).initialize(to: ObservationClass.description)
        let functions = unsafe Function.table
        let host = UnsafeMutablePointer<clua_host>.allocate(capacity: 1)
        unsafe host.initialize(
            to: clua_host(
                classes: UnsafePointer(classes), class_count: 6, functions: functions.start, function_count: functions.count,
                call: { unsafe LuaState.answer($0, $1, $2, ScriptModule.call) },
                sent: { lua, parcel in
                    guard let lua = unsafe lua, let parcel = unsafe parcel else { return }
                    unsafe LuaState.of(lua).seal(referencesOf: parcel)
                }))
        return unsafe UnsafePointer(host)
    }()

    static func call(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        switch Function(number: member) {
        case .now: return .number(MonotonicClock.seconds)
        case .sleep:
            let seconds = try call.seconds(at: 1)
            _ = try call.state.wait(deadline: .now.advanced(by: .seconds(min(seconds, 1e9)))) { false }
            return .nothing
        case .after: return try TimerClass.start(call, repeats: false)
        case .every: return try TimerClass.start(call, repeats: true)
        case .process: return try ProcessClass.start(call)
        case .sh: return try ProcessClass.startShell(call)
        case nil: throw .message("opscript bug: no function \(member)")
        }
    }
}

/// The clock of `opscript.now`.
enum MonotonicClock {
    private static let start = ContinuousClock.now

    /// Seconds since an arbitrary moment in this process.
    static var seconds: Double { start.duration(to: .now) / .seconds(1) }
}
