import CLua
import Glibc

/// A Lua state for a test.
@safe final class State {
    let lua: OpaquePointer

    /// A host without classes and functions.
    // Safety: it is written once, before the first state reads it.
    private nonisolated(unsafe) static let host: UnsafePointer<clua_host> = {
        let host = UnsafeMutablePointer<clua_host>.allocate(capacity: 1)
        unsafe host.initialize(
            to: clua_host(
                classes: nil, class_count: 0, functions: nil, function_count: 0, call: { _, _, _ in }, exit: nil, sent: { _, _ in },
                deferral: clua_deferral(), class_kind: 0, new_operation: nil, assign_class_field: nil, class_contents: nil,
                collected: nil, registering: clua_registering(), write: nil, script: clua_script(), streaming: clua_streaming()))
        return unsafe UnsafePointer(host)
    }()

    convenience init() { unsafe self.init(host: State.host) }

    /// The host must outlive the state.
    init(host: UnsafePointer<clua_host>) {
        guard let lua = unsafe clua_state_new(nil, host, CLUA_NO_ENVIRONMENT.rawValue) else { fatalError("no memory for a state") }
        unsafe self.lua = lua
    }

    deinit { unsafe clua_state_close(lua) }

    /// The number of values on the stack.
    var count: Int32 {
        get { unsafe lua_gettop(lua) }
        set { unsafe lua_settop(lua, newValue) }
    }

    /// Runs a chunk with the top `arguments` values as `...`, pops these, and leaves the results on the stack.
    func run(_ source: String, arguments: Int32 = 0) throws(ScriptError) {
        var source = source
        try unsafe protected { failure in
            source.withUTF8 { utf8 in
                unsafe clua_load_string(
                    lua, UnsafeRawPointer(utf8.baseAddress)?.assumingMemoryBound(to: CChar.self), utf8.count, "=test", &failure)
            }
        }
        unsafe lua_rotate(lua, -arguments - 1, 1)
        try unsafe protected { failure in unsafe clua_call(lua, arguments, LUA_MULTRET, &failure) }
    }

    /// Runs a chunk and returns its string; nil when it returns a value of another type.
    func text(_ source: String) throws(ScriptError) -> String? {
        let base = count
        defer { count = base }
        try run(source)
        var length = 0
        guard let bytes = unsafe clua_string(lua, base + 1, &length) else { return nil }
        return unsafe String(decoding: UnsafeRawBufferPointer(start: bytes, count: length), as: UTF8.self)
    }

    /// Encodes the top `count` values and pops them.
    func encode(_ count: Int32, as role: clua_parcel_role) throws(ScriptError) -> Parcel {
        let parcel = Parcel()
        let base = self.count - count
        defer { self.count = base }
        try unsafe protected { failure in
            let status = unsafe clua_encode(lua, count, role, parcel.pointer)
            if status != LUA_OK { unsafe clua_take_message(lua, status, &failure) }
            return status
        }
        return parcel
    }

    /// Runs `source` and encodes its results.
    func encode(_ source: String, as role: clua_parcel_role = CLUA_STORED) throws(ScriptError) -> Parcel {
        let base = count
        try run(source)
        return try encode(count - base, as: role)
    }

    /// Pushes the values of `parcel`.
    func decode(_ parcel: Parcel, in environment: clua_environment) throws(ScriptError) {
        try unsafe protected { failure in
            let status = unsafe clua_decode(lua, parcel.pointer, environment)
            if status != LUA_OK { unsafe clua_take_message(lua, status, &failure) }
            return status
        }
    }

    /// Decodes `parcel` with each byte changed to each other value. The state must survive, with any status.
    func decodeWithWrongBytes(_ parcel: Parcel) {
        for index in parcel.bytes.indices {
            for byte in UInt8.min...UInt8.max where byte != parcel.bytes[index] {
                var bytes = parcel.bytes
                bytes[index] = byte
                _ = decode(parcel, bytes: bytes, in: CLUA_FRESH_ENVIRONMENT)
                count = 0
            }
        }
    }

    /// Decodes `parcel` as if it consisted of `bytes`; returns the status.
    func decode(_ parcel: Parcel, bytes: [UInt8], in environment: clua_environment) -> Int32 {
        var bytes = bytes
        return unsafe bytes.withUnsafeMutableBufferPointer { bytes in
            var altered = unsafe parcel.pointer.pointee
            unsafe altered.bytes = bytes.baseAddress
            unsafe altered.byte_count = bytes.count
            unsafe altered.has_block = true
            return unsafe clua_decode(lua, &altered, environment)
        }
    }

    /// Decodes `parcel` as if its classes had these bytes, or it had no long strings; returns the status.
    func decode(_ parcel: Parcel, classes: [UInt8]?, in environment: clua_environment) -> Int32 {
        let bytes = (classes ?? []).map { CChar(bitPattern: $0) }
        var string = unsafe clua_wire_copy(bytes, bytes.count)
        var altered = unsafe parcel.pointer.pointee, more = unsafe altered.more.pointee
        defer { unsafe clua_wire_release(string) }
        return unsafe withUnsafeMutablePointer(to: &string) { strings in
            unsafe more.strings = unsafe strings
            unsafe more.string_count = classes == nil ? 0 : 1
            return unsafe withUnsafeMutablePointer(to: &more) { more in
                unsafe altered.more = unsafe more
                return unsafe clua_decode(lua, &altered, environment)
            }
        }
    }

    /// The most memory that the state may hold; 0 for no limit.
    var limitBytes: Int {
        get {
            let state = unsafe clua_state_of(lua).pointee
            return unsafe state.limit_bytes == state.possible_bytes ? 0 : Int(state.limit_bytes)
        }
        set {
            let state = unsafe clua_state_of(lua)!
            unsafe state.pointee.limit_bytes = newValue == 0 ? state.pointee.possible_bytes : newValue
        }
    }

    /// The memory that the state holds after a full collection.
    func usedBytes() throws(ScriptError) -> Int {
        try run("collectgarbage() collectgarbage()")
        return unsafe Int(clua_state_of(lua).pointee.used_bytes)
    }

    private func protected(_ body: (inout clua_failure) -> Int32) throws(ScriptError) {
        var failure = unsafe clua_failure()
        if unsafe body(&failure) == LUA_OK { return }
        let error = unsafe ScriptError(failure)
        unsafe clua_failure_release(&failure)
        throw error
    }
}

/// An error that Lua raised.
struct ScriptError: Error, CustomStringConvertible {
    let status: Int32
    let message: String
    let traceback: String

    init(_ failure: clua_failure) {
        unsafe status = failure.status
        message = unsafe Self.text(failure.message, failure.message_count)
        traceback = unsafe Self.text(failure.traceback, failure.traceback_count)
    }

    var description: String { "\(message)\n\(traceback)" }

    var isMemoryError: Bool { status == LUA_ERRMEM }

    private static func text(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> String {
        guard let bytes = unsafe bytes else { return "" }
        return unsafe String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
    }
}

/// Encoded values, released together with this object.
@safe final class Parcel {
    let pointer = UnsafeMutablePointer<clua_parcel>.allocate(capacity: 1)

    init() { unsafe pointer.initialize(to: clua_parcel()) }

    deinit {
        unsafe clua_parcel_release(pointer)
        unsafe pointer.deallocate()
    }

    var bytes: [UInt8] { unsafe Array(UnsafeBufferPointer(start: clua_parcel_bytes(pointer), count: pointer.pointee.byte_count)) }

    /// The size of the values, with long strings.
    var size: Int { unsafe clua_parcel_size(pointer) }

    var hasParameters: Bool { unsafe clua_wire_has_parameters(pointer) }

    /// Where the first function is defined.
    var place: String { unsafe String(cString: clua_wire_place(pointer)) }

    /// The address of the last long string, which has the classes; nil if there is none.
    var classes: UInt? {
        let count = unsafe clua_parcel_string_count(pointer)
        return unsafe count == 0 ? nil : UInt(bitPattern: clua_parcel_string(pointer, count - 1))
    }

    /// The bytes of that string.
    var classBytes: [UInt8] {
        var count = 0
        let string = unsafe clua_parcel_string(pointer, clua_parcel_string_count(pointer) - 1)
        let bytes = unsafe clua_wire_string(string, &count)
        return unsafe UnsafeBufferPointer(start: bytes, count: count).map { UInt8(bitPattern: $0) }
    }

    /// The bytes of the first frozen value, as they are sent to another machine.
    func bytesOfFrozen() throws -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0, refusal: UnsafePointer<CChar>?
        guard unsafe clua_wire_write_frozen(clua_parcel_frozen(pointer, 0), nil, &bytes, &count, &refusal) else {
            throw FrozenRefusal(message: unsafe refusal.map { unsafe String(cString: $0) } ?? "")
        }
        defer { unsafe free(bytes) }
        return unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
    }

    /// The parcel as another machine receives it: without long strings and objects, and with its only frozen value read from `contents`. Nil if
    /// `contents` is wrong.
    func receivedElsewhere(frozen contents: [UInt8]) -> Parcel? {
        guard let frozen = unsafe clua_wire_read_frozen(contents, contents.count, nil) else { return nil }
        var bytes: UnsafeMutablePointer<UInt8>?, count = 0
        guard unsafe clua_wire_write(pointer, nil, &bytes, &count) else { return nil }
        defer { unsafe free(bytes) }
        let parcel = Parcel()
        return unsafe clua_wire_read(bytes, count, nil, 0, nil, 0, [frozen], 1, nil, parcel.pointer) ? parcel : nil
    }
}

/// The error of a frozen value that cannot be sent to another machine. The message names the part.
struct FrozenRefusal: Error, Equatable { let message: String }
