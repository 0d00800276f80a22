import CLua

/// A host whose objects are numbers with reference counts. In scripts, `opscript.object(number)` returns an object's handle;
/// `opscript.pin(number)` and `opscript.unpin(number)` keep the handle alive or let it go. Use it only in a process of its own.
@safe enum ObjectHost {
    // Safety: only one thread uses it; see above.
    private nonisolated(unsafe) static let counts = UnsafeMutablePointer<Int>.allocate(capacity: limit)
    private static let limit = 300_000

    /// The number of references to an object.
    static func references(to number: Int) -> Int { unsafe counts[number] }

    /// The number of references to all objects.
    static var references: Int { unsafe UnsafeBufferPointer(start: counts, count: limit).reduce(0, +) }

    static func state() -> State {
        unsafe counts.initialize(repeating: 0, count: limit)
        unsafe clua_set_object_functions(
            clua_object_functions(
                retain: { unsafe $0!.assumingMemoryBound(to: Int.self).pointee += 1 },
                release: { unsafe $0!.assumingMemoryBound(to: Int.self).pointee -= 1 }, class_of: nil, slot_of: nil,
                set_slot: nil, make: nil))
        return unsafe State(host: host)
    }

    private static func call(_ lua: OpaquePointer, _ member: Int32, _ reply: UnsafeMutablePointer<clua_reply>) {
        let object = unsafe counts + Int(lua_tointegerx(lua, 1, nil))
        var failure = unsafe clua_failure()
        switch member {
        case 1:
            unsafe object.pointee += 1
            unsafe reply.pointee.kind = CLUA_REPLY_HANDLE
            unsafe reply.pointee.reference.object = UnsafeMutableRawPointer(object)
            unsafe reply.pointee.reference.kind = 1
        case 2: if unsafe clua_pin(lua, object, 1, 0, &failure) != LUA_OK { fatalError("not pinned") }
        default: unsafe clua_unpin(lua, object)
        }
    }

    // Safety: it is written once, before the first state reads it.
    private nonisolated(unsafe) static let host: UnsafePointer<clua_host> = {
        let names: [StaticString] = ["object", "pin", "unpin"]
        let functions = UnsafeMutablePointer<clua_member>.allocate(capacity: names.count)
        for (index, name) in names.enumerated() {
            let name = unsafe UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
            unsafe (functions + index).initialize(to: clua_member(name: name, member: Int32(index + 1)))
        }
        let host = UnsafeMutablePointer<clua_host>.allocate(capacity: 1)
        unsafe host.initialize(
            to: clua_host(
                classes: nil, class_count: 0, functions: functions, function_count: names.count,
                call: { unsafe ObjectHost.call($0!, $1, $2!) }, exit: nil, sent: { _, _ in }, deferral: clua_deferral(), class_kind: 0,
                new_operation: nil, assign_class_field: nil, class_contents: nil, collected: nil,
                registering: clua_registering(), write: nil, script: clua_script(), streaming: clua_streaming()))
        return unsafe UnsafePointer(host)
    }()
}
