import LuaBindings
import OpEngine

/// The object behind `opscript_list`.
// Safety: the header says that one thread at a time uses a list.
final class ListObject: @unchecked Sendable {
    fileprivate(set) var values: [ValueObject]

    init(_ values: [LuaValue] = []) { self.values = values.map { ValueObject($0) } }

    var luaValues: [LuaValue] { values.map(\.value) }
}

/// The values of a list; none for NULL.
func luaValues(_ list: OpaquePointer?) -> [LuaValue] { object(list, as: ListObject.self)?.luaValues ?? [] }

/// `opscript_list_new`
@_cdecl("opscript_list_new")
public func newList() -> OpaquePointer? { retained(ListObject()) }

/// `opscript_list_count`
@_cdecl("opscript_list_count")
public func count(_ list: OpaquePointer?) -> Int { object(list, as: ListObject.self)?.values.count ?? 0 }

/// `opscript_list_get`
@_cdecl("opscript_list_get")
public func get(_ list: OpaquePointer?, _ index: Int) -> OpaquePointer? {
    guard let values = object(list, as: ListObject.self)?.values, values.indices.contains(index) else {
        return borrowed(ValueObject.nothing)
    }
    return borrowed(values[index])
}

/// `opscript_list_add`
@_cdecl("opscript_list_add")
public func add(_ list: OpaquePointer?, _ value: OpaquePointer?) -> Bool {
    guard let value = object(value, as: ValueObject.self) else { return false }
    return add(value.value, to: list)
}

/// `opscript_list_add_nil`
@_cdecl("opscript_list_add_nil")
public func addNil(_ list: OpaquePointer?) -> Bool { add(.nil, to: list) }

/// `opscript_list_add_boolean`
@_cdecl("opscript_list_add_boolean")
public func add(_ list: OpaquePointer?, boolean: Bool) -> Bool { add(.boolean(boolean), to: list) }

/// `opscript_list_add_integer`
@_cdecl("opscript_list_add_integer")
public func add(_ list: OpaquePointer?, integer: Int64) -> Bool { add(.integer(Int(integer)), to: list) }

/// `opscript_list_add_number`
@_cdecl("opscript_list_add_number")
public func add(_ list: OpaquePointer?, number: Double) -> Bool { add(.number(number), to: list) }

/// `opscript_list_add_string`
@_cdecl("opscript_list_add_string")
public func add(_ list: OpaquePointer?, bytes: UnsafePointer<CChar>?, _ length: Int) -> Bool { add(string(bytes, length), to: list) }

/// `opscript_list_add_operation`
@_cdecl("opscript_list_add_operation")
public func add(_ list: OpaquePointer?, operation: OpaquePointer?) -> Bool {
    add(object(operation, as: Operation.self).map { .operation($0) }, to: list)
}

/// `opscript_list_free`
@_cdecl("opscript_list_free")
public func freeList(_ list: OpaquePointer?) { release(list, as: ListObject.self) }

private func add(_ value: LuaValue?, to list: OpaquePointer?) -> Bool {
    guard let list = object(list, as: ListObject.self), let value else { return false }
    list.values.append(ValueObject(value))
    return true
}
