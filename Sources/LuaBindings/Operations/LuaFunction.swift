import OpEngine

/// A Lua function, copied together with its captured values. A host uses it as the body of any number of operations.
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
    /// Nil if the origin holds the parcel.
    let parcel: Parcel?

    init(core: RuntimeCore, group: Runtime.Group?, parcel: Parcel) {
        self.parcel = parcel.isLight ? nil : parcel
        origin = LuaOperation.Origin(
            core: core, home: nil, kind: .function, group: group, body: parcel.isLight ? parcel : nil)
    }
}

extension Runtime {
    /// Runs a script in the main state and copies the function that it returns, with the present values of its captured variables. Costs
    /// one copy of those values; operations made from the result share the copy.
    ///
    /// - Parameters:
    ///   - source: a script that returns one function.
    ///   - name: the script's name in error messages: `@` and a file name, or `=` and any text.
    ///   - arguments: the values of `...` in the script.
    /// - Throws: what the script raises, or an error if it returns anything but one function, or if the function captures a value that cannot
    ///   be sent.
    public func function(_ source: String, name: String = "=function", arguments: [LuaValue] = []) throws(LuaError) -> LuaFunction {
        try insideRun { state throws(Failure) in
            try state.load(source, name: name)
            let group = unsafe state.group?.takeUnretainedValue()
            return LuaFunction(core: state.core, group: group, parcel: try state.copyFunction(calledWith: arguments, name: name))
        }
    }
}

extension LuaOperation {
    /// Makes an operation that calls `function` with the operation itself and `arguments`, on a thread of the function's runtime. Safe from
    /// every thread.
    public convenience init(_ function: borrowing LuaFunction, arguments: [LuaValue] = []) {
        if function.parcel == nil && arguments.isEmpty {
            self.init(function.origin, .nothing)
        } else if let parcel = function.parcel ?? function.origin.body {
            let body = arguments.isEmpty ? Body.parcel(parcel) : .hostCall(parcel, arguments)
            self.init(function.origin, Fields(bodies: .one(body)))
            if !arguments.isEmpty { keepsMore() }
            registerReferences(of: parcel)
        } else {
            fatalError("opscript bug: a function without code")
        }
    }
}
