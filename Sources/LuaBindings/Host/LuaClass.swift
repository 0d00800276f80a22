/// A class of the host, as scripts see it: functions, methods, properties and metamethods.
///
/// ```swift
/// final class Account: LuaObject {
///     let balance = Mutex(0)
/// }
///
/// var account = LuaClass<Account>("Account")
/// account.function("new") { (balance: Int) in … }
/// account.property("balance") { account in account.balance.withLock { $0 } }
/// account.method("deposit") { (account, amount: Int) in account.balance.withLock { $0 += amount } }
/// account.metamethod("__len") { (account: Account) in … }
/// try runtime.register(account)
/// ```
///
/// A script calls `Account.new(5)`, `account.balance` and `account:deposit(3)`. Several states may use the same object at once, so each of
/// these functions may be called on several threads at once. The class promises by `Sendable` that this is safe.
public struct LuaClass<Object: LuaObject>: Sendable {
    /// The name of the class table, a global, and of the class in messages.
    public let name: String
    var members = HostClass.Members()

    /// Begins a class without members.
    public init(_ name: String) { self.name = name }

    /// Adds a function to the class table, such as `new`. A class without functions has no class table.
    public mutating func function<each Parameter: LuaConvertible, Result: LuaConvertible>(
        _ name: String, _ function: @escaping @Sendable (repeat each Parameter) throws -> Result
    ) {
        members.functions[name] = { call in
            var index = 0
            try function(repeat call.next(&index, (each Parameter).self)).write(to: call)
        }
    }

    /// Adds a method with a result.
    @_disfavoredOverload
    public mutating func method<each Parameter: LuaConvertible, Result: LuaConvertible>(
        _ name: String, _ method: @escaping @Sendable (Object, repeat each Parameter) throws -> Result
    ) {
        members.methods[name] = { call in
            var index = 0
            let object = try call.receiver(&index, Object.self, of: name)
            try method(object, repeat call.next(&index, (each Parameter).self)).write(to: call)
        }
    }

    /// Adds a method without a result.
    public mutating func method<each Parameter: LuaConvertible>(
        _ name: String, _ method: @escaping @Sendable (Object, repeat each Parameter) throws -> Void
    ) {
        members.methods[name] = { call in
            var index = 0
            let object = try call.receiver(&index, Object.self, of: name)
            try method(object, repeat call.next(&index, (each Parameter).self))
        }
    }

    /// Adds a property. Without `set`, assigning it is an error.
    public mutating func property<Value: LuaConvertible>(
        _ name: String, get: @escaping @Sendable (Object) throws -> Value, set: (@Sendable (Object, Value) throws -> Void)? = nil
    ) {
        members.getters[name] = { call in
            var index = 0
            try get(call.next(&index, Object.self)).write(to: call)
        }
        guard let set else { return }
        members.setters[name] = { call in
            var index = 0
            let object = try call.next(&index, Object.self)
            index += 1  // the name
            try set(object, call.next(&index, Value.self))
        }
    }

    /// Adds a metamethod, such as `__add`, `__call` or `__tostring`. An operator gets both operands. Either may be the object.
    ///
    /// Traps for `__index` and `__newindex`, which properties and methods replace, for `__gc`, `__mode` and `__metatable`, because Swift frees
    /// the object, and for `__name` and `__transfer`.
    public mutating func metamethod<each Parameter: LuaConvertible, Result: LuaConvertible>(
        _ name: String, _ function: @escaping @Sendable (repeat each Parameter) throws -> Result
    ) {
        precondition(
            HostClass.mayHave(metamethod: name), "opscript: '\(name)' is not a metamethod that a class of the host can have")
        members.metamethods[name] = { call in
            var index = 0
            try function(repeat call.next(&index, (each Parameter).self)).write(to: call)
        }
    }
}
