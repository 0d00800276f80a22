/// A type that functions of the host can have as a parameter or as a result. See `Runtime.register`.
///
/// Numbers, strings, booleans, optionals, arrays, dictionaries, operations, queues, `LuaValue` and every `LuaObject` conform. A type that is
/// `Codable` conforms by declaration alone:
///
/// ```swift
/// struct Row: Codable, LuaConvertible { var name: String; var price: Double }
/// ```
///
/// Any other type implements `fromLua` and `toLua`. The other two requirements have defaults, and exist for speed.
public protocol LuaConvertible: SendableMetatype {
    /// Makes an instance from a Lua value.
    ///
    /// - Throws: `LuaError.mismatch(expected:found:)`, or any error that explains why the value does not fit.
    static func fromLua(_ value: LuaValue) throws -> Self

    /// The instance as a Lua value.
    func toLua() throws -> LuaValue

    /// Reads an argument. The default passes a copy of the whole argument to `fromLua`.
    static func read(from call: borrowing LuaCall, at index: Int) throws -> Self

    /// Adds the instance to the results of a call. The default adds the value that `toLua` returns.
    func write(to call: borrowing LuaCall) throws
}
