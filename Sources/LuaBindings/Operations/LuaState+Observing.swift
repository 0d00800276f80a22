import CLua
import OpEngine

/// The calls of observers in a state.
extension LuaState {
    /// Calls the function of an observation with a change.
    func tell(_ observation: Observation, _ notice: ChangeNotice, of object: AnyObject) {
        guard !isClosed, observation.isActive else { return }
        let fields = FlatValues([.table(notice.fields)])
        do throws(Failure) {
            try within(observation.group, by: observation.budget) { () throws(Failure) in
                try unsafe attemptToEnd { lua, failure in
                    unsafe fields.withItems { items in
                        var change = unsafe clua_change(
                            object: clua_reference(unowned: object, ObjectKind(of: object)),
                            observation: clua_reference(unowned: observation, .observation), fields: items.baseAddress,
                            old_value: notice.old?.pointer, new_value: notice.new?.pointer)
                        return unsafe clua_run_observer(lua, &change, &failure)
                    }
                }
            }
        } catch {
            let name = (object as? Operation)?.displayName ?? (object as? OperationQueue)?.displayName ?? "a queue"
            report(error, in: "an observer of '\(observation.keyPath)' of \(name)", of: observation.group)
        }
        withExtendedLifetime(notice) {}
    }

    /// The observations of `object` in this state.
    func observations(of object: AnyObject) -> [Observation] {
        guard hasObserved else { return [] }
        let pointer = unsafe Unmanaged.passUnretained(object).toOpaque()
        let count = unsafe clua_observations(running, pointer, nil, 0)
        if count == 0 { return [] }
        return unsafe withUnsafeTemporaryAllocation(of: UnsafeMutableRawPointer?.self, capacity: Int(count)) { pointers in
            unsafe pointers.initialize(repeating: nil)
            _ = unsafe clua_observations(running, pointer, pointers.baseAddress, count)
            return unsafe pointers.compactMap { unsafe $0.map { unsafe LuaBindings.object($0, as: Observation.self) } }
        }
    }

    func removeFunction(of observation: Observation) {
        checkThread()
        guard !isClosed, let object = observation.object else { return }
        unsafe clua_remove_observer(
            running, Unmanaged.passUnretained(object).toOpaque(), Unmanaged.passUnretained(observation).toOpaque())
    }
}

extension ObjectKind {
    /// The kind of an observable object.
    init(of object: AnyObject) { self = object is Operation ? .operation : .queue }
}
