import CLua
import OpEngine

/// Values of scripts as Swift types.
extension Runtime {
    /// Evaluates an expression in the main state, or runs a script that returns a value.
    ///
    /// ```swift
    /// let n: Int = try runtime.evaluate("1 + 1")
    /// let prices: [String: [Double]] = try runtime.evaluate("return { apple = { 1, 2.5 } }")
    /// ```
    ///
    /// - Parameters:
    ///   - source: an expression, or the text of a script.
    ///   - type: the type of the value. See `LuaDecoder` for the values that fit.
    ///   - name: the name in error messages: `@` and a file name, or `=` and any text.
    ///   - arguments: the values of `...`.
    /// - Returns: the first value; further ones are ignored.
    /// - Throws: the error that the script raises; an error of the kind `conversion` if the value does not fit.
    public func evaluate<Value: Decodable>(
        _ source: String, as type: Value.Type = Value.self, name: String = "=expression", arguments: [LuaValue] = []
    ) throws(LuaError) -> Value {
        try LuaDecoder().decode(type, from: evaluate(source, name: name, arguments: arguments))
    }

    /// Like `evaluate(_:as:name:arguments:)`, but for a value of any type.
    public func evaluate(_ source: String, name: String = "=expression", arguments: [LuaValue] = []) throws(LuaError) -> LuaValue {
        try insideRun { state throws(Failure) in
            try state.load(expression: source, name: name)
            return try state.call(arguments).first ?? .nil
        }
    }

    /// Calls a function of the main state.
    ///
    /// ```swift
    /// let total: Double = try runtime.call("total", order, 0.19)
    /// ```
    ///
    /// - Parameters:
    ///   - function: a global, or a field of one: `string.format`.
    ///   - arguments: values of any `Encodable` types. `LuaValue` passes other values, such as an operation.
    ///   - type: the type of the result. See `LuaDecoder` for the values that fit.
    /// - Returns: the first result; further ones are ignored.
    /// - Throws: the error that the function raises; an error of the kind `conversion` if an argument or the result does not fit.
    @_disfavoredOverload
    public func call<each Argument: Encodable, Result: Decodable>(
        _ function: String, _ arguments: repeat each Argument, as type: Result.Type = Result.self
    ) throws(LuaError) -> Result {
        var values: [LuaValue] = []
        repeat values.append(try LuaEncoder().encode(each arguments))
        return try LuaDecoder().decode(type, from: call(function, arguments: values).first ?? .nil)
    }

    /// Calls a function of the main state, and returns all its results.
    @discardableResult
    public func call<each Argument: Encodable>(_ function: String, _ arguments: repeat each Argument) throws(LuaError) -> [LuaValue] {
        var values: [LuaValue] = []
        repeat values.append(try LuaEncoder().encode(each arguments))
        return try call(function, arguments: values)
    }

    /// Calls a function of the main state with any number of values, and returns all its results.
    @discardableResult
    public func call(_ function: String, arguments: [LuaValue]) throws(LuaError) -> [LuaValue] {
        try insideRun { state throws(Failure) in
            try state.push(named: function)
            return try state.call(arguments)
        }
    }
}

extension LuaState {
    /// Pushes the value of a name such as `string.format`.
    fileprivate func push(named name: String) throws(Failure) {
        try unsafe attempt { lua, failure in unsafe clua_push_named(lua, name, &failure) }
    }
}
