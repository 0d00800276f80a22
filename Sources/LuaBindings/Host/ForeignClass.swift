import OpEngine
import OpPlatform

/// An object of a host in another language. The host chooses the class, which is not a type of Swift, when it makes the object.
package final class ForeignObject: LuaObject, ClassedObject {
    package let objectClass: ForeignClass
    /// The host's number or pointer for the object.
    package let content: any Sendable

    package init(_ content: any Sendable, of objectClass: ForeignClass) { (self.content, self.objectClass) = (content, objectClass) }

    var classIdentity: ObjectIdentifier { ObjectIdentifier(objectClass) }

    /// The object in a value; nil for anything but an object of `objectClass`.
    package static func of(_ value: LuaValue?, of objectClass: ForeignClass) -> ForeignObject? {
        guard case .object(let reference)? = value, let object = reference.object as? ForeignObject else { return nil }
        return object.objectClass === objectClass ? object : nil
    }
}

/// A class of objects of a host in another language, as scripts see it.
package final class ForeignClass: Sendable {
    package typealias Function = @Sendable ([LuaValue]) throws -> [LuaValue]

    /// The name of the class table, a global, and of the class in messages.
    package let name: String
    private let collected = Guarded(HostClass.Members())

    var members: HostClass.Members { collected.withLock { $0 } }

    package init(_ name: String) { self.name = name }

    /// Adds a function to the class table.
    package func add(function name: String, _ function: @escaping Function) { change { $0.functions[name] = body(function) } }

    /// Adds a method. Its first argument is an object of this class.
    package func add(method name: String, _ function: @escaping Function) {
        change {
            $0.methods[name] = { [unowned self] call in
                guard call.argumentCount > 0, ForeignObject.of(try call.value(at: 1), of: self) != nil else {
                    throw CallError.message(
                        "call '\(name)' with ':', as in object:\(name)(...); what came before it is \(call.found(at: 1))")
                }
                try Self.run(call, function)
            }
        }
    }

    /// Adds the function that reads a property. Its argument is the object.
    package func add(getter name: String, _ function: @escaping Function) {
        change { $0.getters[name] = { call in for result in try function([call.value(at: 1)]).prefix(1) { try call.push(result) } } }
    }

    /// Adds the function that assigns a property. Its arguments are the object and the value.
    package func add(setter name: String, _ function: @escaping Function) {
        change { $0.setters[name] = { call in _ = try function([call.value(at: 1), call.value(at: 3)]) } }
    }

    /// Adds a metamethod. Returns false if a class of the host cannot have one of this name.
    package func add(metamethod name: String, _ function: @escaping Function) -> Bool {
        guard HostClass.mayHave(metamethod: name) else { return false }
        change { $0.metamethods[name] = body(function) }
        return true
    }

    private func change(_ body: (inout HostClass.Members) -> Void) { collected.withLock { body(&$0) } }

    private func body(_ function: @escaping Function) -> HostClass.Body { { call in try Self.run(call, function) } }

    private static func run(_ call: borrowing LuaCall, _ function: Function) throws {
        var arguments: [LuaValue] = []
        for index in 0..<call.argumentCount { arguments.append(try call.value(at: index + 1)) }
        for result in try function(arguments) { try call.push(result) }
    }
}

extension Runtime {
    /// Makes a class known in every state, with the members that it has now.
    ///
    /// - Throws: an error if the runtime is closed or memory has run out.
    package func register(_ objectClass: ForeignClass) throws(LuaError) { try add(HostClass(objectClass)) }
}
