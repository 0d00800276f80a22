import OpEngine

/// A Lua function, copied with what it captures: the body of any number of operations that a host makes.
///
/// ```swift
/// let resize = try runtime.function("local quality = 80; return function(operation, file) return shrink(file, quality) end")
/// let queue = OperationQueue(engine: runtime.engine)
/// for file in files { queue.addOperation(LuaOperation(resize, arguments: [.string(file)])) }
/// ```
///
/// - Concurrency: safe from every thread.
public struct LuaFunction: Sendable {
    let origin: LuaOperation.Origin
    /// Nil where the origin has it.
    let parcel: Parcel?

    init(core: RuntimeCore, parcel: Parcel) {
        self.parcel = parcel.isLight ? nil : parcel
        origin = LuaOperation.Origin(
            core: core, home: nil, kind: .function, body: parcel.isLight ? parcel : nil)
    }
}

extension Runtime {
    /// Runs a script in the main state and copies the function that it returns, with what that captures as it is now.
    ///
    /// - Parameters:
    ///   - source: a script that returns one function.
    ///   - name: what errors call it: `@` and a file name, or `=` and any text.
    ///   - arguments: what `...` is in the script.
    /// - Throws: what the script raises; also when it returns something else, or a function that captures what cannot be sent.
    public func function(_ source: String, name: String = "=function", arguments: [LuaValue] = []) throws(LuaError) -> LuaFunction {
        let state = try state()
        return try asLuaError { () throws(Failure) in
            try state.load(source, name: name)
            return LuaFunction(core: state.core, parcel: try state.copyFunction(calledWith: arguments, name: name))
        }
    }
}

extension LuaOperation {
    /// An operation that calls `function` with the operation itself and `arguments`, on a thread of the function's runtime. From any
    /// thread.
    public convenience init(_ function: borrowing LuaFunction, arguments: [LuaValue] = []) {
        if function.parcel == nil && arguments.isEmpty {
            self.init(function.origin, .nothing)
        } else if let parcel = function.parcel ?? function.origin.body {
            let form = arguments.isEmpty ? Body.Form.parcel(parcel) : .hostCall(Body.HostCall(parcel, arguments))
            self.init(function.origin, Fields(bodies: .one(Body(form: form, isInHandle: false))))
            if !arguments.isEmpty { keepsMore() }
            note(parcel)
        } else {
            fatalError("opscript bug: a function without code")
        }
    }
}
