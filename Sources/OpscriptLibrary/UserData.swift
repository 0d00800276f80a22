import COpscript
import LuaBindings

/// A pointer of the program. `destroy` releases it with the last closure that has this object.
// Safety: the header says that callbacks and destructors may be called on any thread.
final class UserData: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer?
    private let destroy: opscript_destructor?

    init(_ pointer: UnsafeMutableRawPointer?, _ destroy: opscript_destructor?) { (self.pointer, self.destroy) = (pointer, destroy) }

    deinit { destroy?(pointer) }
}

/// A function of the program as one of Swift.
func hostFunction(_ function: @escaping opscript_host_function, _ data: UserData) -> @Sendable ([LuaValue]) throws -> [LuaValue] {
    { arguments in
        let (arguments, results) = (ListObject(arguments), ListObject())
        let isDone = withExtendedLifetime((arguments, results)) { function(data.pointer, borrowed(arguments), borrowed(results)) }
        guard isDone else { throw CallbackError(results) }
        return results.luaValues
    }
}

/// A sink of the program as one of Swift.
func sink(_ sink: @escaping opscript_sink, _ data: UserData) -> @Sendable ([UInt8]) -> Void {
    { bytes in bytes.withUnsafeBytes { sink(data.pointer, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count) } }
}

/// A notice of the program as one of Swift.
func notice(_ notice: @escaping opscript_notice, _ data: UserData) -> @Sendable () -> Void { { notice(data.pointer) } }
