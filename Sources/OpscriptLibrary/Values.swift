public import COpscript
import LuaBindings
import OpEngine

/// The functions `opscript_value_…` about values of every type.

/// The value at an address; nil for NULL.
func luaValue(_ value: OpaquePointer?) -> LuaValue { object(value, as: ValueObject.self)?.value ?? .nil }

/// A string of any bytes.
func string(_ start: UnsafePointer<CChar>?, _ length: Int) -> LuaValue? {
    guard let bytes = try? bytes(start, length, "bytes") else { return nil }
    return String(validating: bytes, as: UTF8.self).map { .string($0) } ?? .bytes(Array(bytes))
}

/// `opscript_value_new_nil`
@_cdecl("opscript_value_new_nil")
public func newNil() -> OpaquePointer? { retained(ValueObject(.nil)) }

/// `opscript_value_new_boolean`
@_cdecl("opscript_value_new_boolean")
public func newBoolean(_ value: Bool) -> OpaquePointer? { retained(ValueObject(.boolean(value))) }

/// `opscript_value_new_integer`
@_cdecl("opscript_value_new_integer")
public func newInteger(_ value: Int64) -> OpaquePointer? { retained(ValueObject(.integer(Int(value)))) }

/// `opscript_value_new_number`
@_cdecl("opscript_value_new_number")
public func newNumber(_ value: Double) -> OpaquePointer? { retained(ValueObject(.number(value))) }

/// `opscript_value_new_string`
@_cdecl("opscript_value_new_string")
public func newString(_ bytes: UnsafePointer<CChar>?, _ length: Int) -> OpaquePointer? {
    string(bytes, length).map { retained(ValueObject($0)) }
}

/// `opscript_value_new_table`
@_cdecl("opscript_value_new_table")
public func newTable() -> OpaquePointer? { retained(ValueObject(.table([:]))) }

/// `opscript_value_new_operation`
@_cdecl("opscript_value_new_operation")
public func newValue(operation: OpaquePointer?) -> OpaquePointer? {
    object(operation, as: Operation.self).map { retained(ValueObject(.operation($0))) }
}

/// `opscript_value_new_queue`
@_cdecl("opscript_value_new_queue")
public func newValue(queue: OpaquePointer?) -> OpaquePointer? {
    object(queue, as: OperationQueue.self).map { retained(ValueObject(.queue($0))) }
}

/// `opscript_value_copy`
@_cdecl("opscript_value_copy")
public func copyValue(_ value: OpaquePointer?) -> OpaquePointer? {
    object(value, as: ValueObject.self).map { retained(ValueObject($0.value)) }
}

/// `opscript_value_free`
@_cdecl("opscript_value_free")
public func freeValue(_ value: OpaquePointer?) { release(value, as: ValueObject.self) }

/// `opscript_value_get_type`
@_cdecl("opscript_value_get_type")
public func type(of value: OpaquePointer?) -> opscript_type { luaValue(value).typeInC }

/// `opscript_value_get_boolean`
@_cdecl("opscript_value_get_boolean")
public func getBoolean(_ value: OpaquePointer?, _ result: UnsafeMutablePointer<Bool>?) -> Bool {
    store(luaValue(value).boolean, in: result)
}

/// `opscript_value_get_integer`
@_cdecl("opscript_value_get_integer")
public func getInteger(_ value: OpaquePointer?, _ result: UnsafeMutablePointer<Int64>?) -> Bool {
    store(luaValue(value).integer.map(Int64.init), in: result)
}

/// `opscript_value_get_number`
@_cdecl("opscript_value_get_number")
public func getNumber(_ value: OpaquePointer?, _ result: UnsafeMutablePointer<Double>?) -> Bool {
    store(luaValue(value).number, in: result)
}

private func store<Value>(_ value: Value?, in result: UnsafeMutablePointer<Value>?) -> Bool {
    guard let value else { return false }
    result?.pointee = value
    return true
}

/// `opscript_value_get_string`
@_cdecl("opscript_value_get_string")
public func getString(_ value: OpaquePointer?, _ length: UnsafeMutablePointer<Int>?) -> UnsafePointer<CChar>? {
    guard let string = object(value, as: ValueObject.self)?.string else { return nil }
    length?.pointee = string.count
    return UnsafePointer(string.bytes)
}

/// `opscript_value_get_operation`
@_cdecl("opscript_value_get_operation")
public func getOperation(_ value: OpaquePointer?) -> OpaquePointer? { luaValue(value).operation.map { retained($0) } }

/// `opscript_value_get_queue`
@_cdecl("opscript_value_get_queue")
public func getQueue(_ value: OpaquePointer?) -> OpaquePointer? { luaValue(value).queue.map { retained($0) } }

/// `opscript_value_describe`
@_cdecl("opscript_value_describe")
public func describe(_ value: OpaquePointer?) -> UnsafePointer<CChar>? {
    UnsafePointer((object(value, as: ValueObject.self) ?? .nothing).description.bytes)
}

/// `opscript_value_equal`
@_cdecl("opscript_value_equal")
public func equal(_ left: OpaquePointer?, _ right: OpaquePointer?) -> Bool { luaValue(left) == luaValue(right) }

extension LuaValue {
    var typeInC: opscript_type {
        switch self {
        case .nil: OPSCRIPT_NIL
        case .boolean: OPSCRIPT_BOOLEAN
        case .integer: OPSCRIPT_INTEGER
        case .number: OPSCRIPT_NUMBER
        case .string, .bytes: OPSCRIPT_STRING
        case .table: OPSCRIPT_TABLE
        case .operation: OPSCRIPT_OPERATION
        case .queue: OPSCRIPT_QUEUE
        case .object(let reference): reference.object is ForeignObject ? OPSCRIPT_OBJECT : OPSCRIPT_OTHER
        case .other: OPSCRIPT_OTHER
        }
    }
}
