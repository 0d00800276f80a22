public import COpscript
import LuaBindings

/// The functions `opscript_value_…` about tables.

/// `opscript_value_get`
@_cdecl("opscript_value_get")
public func get(_ table: OpaquePointer?, _ key: OpaquePointer?) -> OpaquePointer? { field(table, luaValue(key)) }

/// `opscript_value_field`
@_cdecl("opscript_value_field")
public func field(_ table: OpaquePointer?, _ name: UnsafePointer<CChar>?) -> OpaquePointer? {
    field(table, name.flatMap { string($0, -1) } ?? .nil)
}

/// `opscript_value_element`
@_cdecl("opscript_value_element")
public func element(_ table: OpaquePointer?, _ index: Int64) -> OpaquePointer? { field(table, .integer(Int(index))) }

/// The object at an address; that of nil for NULL.
private func valueObject(_ value: OpaquePointer?) -> ValueObject { object(value, as: ValueObject.self) ?? .nothing }

private func field(_ table: OpaquePointer?, _ key: LuaValue) -> OpaquePointer? {
    borrowed(object(table, as: ValueObject.self)?.field(key) ?? .nothing)
}

/// `opscript_value_find`
@_cdecl("opscript_value_find")
public func find(
    _ root: OpaquePointer?, _ path: UnsafePointer<CChar>?, _ type: opscript_type, _ error: ErrorPlace?
) -> OpaquePointer? {
    reporting("opscript_value_find", to: error) {
        var value: ValueObject = try require(root, "root")
        let path = try text(path, "path")
        for key in try keys(ofPath: path) { value = value.field(key) }
        guard value.value.fits(type) else { throw PathError(path: path, expected: type, found: value.value) }
        return borrowed(value)
    }
}

/// `opscript_value_count`
@_cdecl("opscript_value_count")
public func fieldCount(_ table: OpaquePointer?) -> Int { luaValue(table).count }

/// `opscript_value_keys`
@_cdecl("opscript_value_keys")
public func keys(_ table: OpaquePointer?) -> OpaquePointer? { retained(ListObject(object(table, as: ValueObject.self)?.keys ?? [])) }

/// `opscript_value_set`
@_cdecl("opscript_value_set")
public func set(_ table: OpaquePointer?, _ key: OpaquePointer?, _ value: OpaquePointer?) -> Bool {
    object(table, as: ValueObject.self)?.set(valueObject(key), to: valueObject(value)) ?? false
}

/// `opscript_value_set_field`
@_cdecl("opscript_value_set_field")
public func setField(_ table: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ value: OpaquePointer?) -> Bool {
    let key = ValueObject(name.flatMap { string($0, -1) } ?? .nil)
    return object(table, as: ValueObject.self)?.set(key, to: valueObject(value)) ?? false
}

/// `opscript_value_append`
@_cdecl("opscript_value_append")
public func append(_ table: OpaquePointer?, _ value: OpaquePointer?) -> Bool {
    object(table, as: ValueObject.self)?.append(valueObject(value)) ?? false
}

extension LuaValue {
    fileprivate func fits(_ type: opscript_type) -> Bool {
        typeInC == type || type == OPSCRIPT_NUMBER && typeInC == OPSCRIPT_INTEGER
    }
}
