import CLua

/// A call of a host function: its arguments, which the function reads one by one, and its results.
///
/// Use it for functions that are called often, have any number of arguments, return several values, or read a few fields of a large table.
/// Reading a number or a boolean allocates nothing.
///
/// ```swift
/// try runtime.registerDirect("add") { call in try call.push(call.integer(at: 1) + call.integer(at: 2)) }
/// ```
///
/// A call is valid while the function runs, and only on its thread; the compiler keeps it from being stored. The errors that its methods
/// throw name the argument, as Lua's own functions do: `bad argument #2 to 'add' (number expected, got nil)`.
@safe
public struct LuaCall: ~Copyable {
    let lua: OpaquePointer
    /// A variable of the caller.
    let progress: UnsafeMutablePointer<Progress>

    /// The progress of a call.
    @safe
    struct Progress {
        var resultCount: Int32 = 0
        /// The scope of the `LuaTable`s that the function has got, retained; nil if there are none.
        var tables: Unmanaged<AnyObject>?
    }

    @inline(__always)
    init(lua: OpaquePointer, progress: UnsafeMutablePointer<Progress>) {
        unsafe (self.lua, self.progress) = (lua, progress)
    }
}
