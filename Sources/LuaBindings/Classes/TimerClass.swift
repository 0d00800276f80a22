import CLua

/// The object that `opscript.after` and `opscript.every` return.
enum TimerClass {
    enum Function: String, Member {
        case cancel
    }

    static var description: clua_class {
        let functions = unsafe Function.table
        let none = unsafe NoMember.table
        return unsafe clua_class(
            name: StaticName.timer, kind: ObjectKind.timer.rawValue, base: nil, functions: functions.start, function_count: functions.count,
            properties: none.start, property_count: 0, class_properties: none.start, class_property_count: 0,
            call: { unsafe LuaState.answer($0, $1, $2, TimerClass.function) },
            get: { _, _, _ in },
            set: { unsafe LuaState.answer($0, $1, $2, TimerClass.refuse) },
            class_get: { _, _, _ in }, describe: { unsafe LuaState.answer($0, $1, $2, TimerClass.describe) })
    }

    /// `opscript.after(seconds, f)` and `opscript.every(seconds, f)`. The timer is the argument of `f`.
    static func start(_ call: Call, repeats: Bool) throws(CallError) -> Answer {
        let seconds = try call.seconds(at: 1)
        if repeats, seconds == 0 { throw .argument(1, "seconds must be more than 0") }
        guard call.isFunction(at: 2) else { throw call.expected("function", at: 2) }
        if call.state.core.io.isEnding { throw .message("the runtime is being closed: it starts no timers") }
        try call.state.makeRoom(for: .timer)
        do throws(Failure) { try call.state.core.io.start() } catch { throw CallError(error) }
        try call.state.core.usage.takeTimer()
        let timer = ScriptTimer(seconds, repeats: repeats, in: call.state)
        do throws(Failure) { try call.state.expect(timer, .timer) } catch {
            call.state.core.usage.returnTimer()
            throw CallError(error)
        }
        timer.start()
        return .object(timer, .timer, callbackAt: 2)
    }

    private static func function(_ member: Int32, _ call: Call) throws(CallError) -> Answer {
        switch Function(number: member) {
        case .cancel: try call.timer(callingFor: "cancel").cancel(in: call.state)
        case nil: throw .message("opscript bug: no method \(member)")
        }
        return .nothing
    }

    private static func refuse(_: Int32, _: Call) throws(CallError) -> Answer { throw .message("a timer has nothing to assign to") }

    private static func describe(_: Int32, _ call: Call) throws(CallError) -> Answer {
        guard let timer = call.timerIfAny(at: 1) else { throw call.expected("Timer", at: 1) }
        return .string(
            "Timer (\(timer.repeats ? "every" : "after") \(timer.interval.scriptText) s, \(timer.isPending ? "pending" : "ended"))")
    }
}
