import CLua

enum KeyError: Error { case noMemory, malformed }

/// The key of a parcel: its components by label, and what they refer to.
@safe struct Key: Equatable {
    struct Component: Equatable {
        var label: String
        var digest: [UInt64]
    }

    private(set) var components: [Component] = []
    private(set) var modules: [String] = []
    private(set) var met: [String] = []
    /// The digests of the lines of each function, by the number of the line.
    private(set) var lines: [String: [UInt32: UInt64]] = [:]

    var labels: [String] { components.map(\.label) }

    subscript(label: String) -> [UInt64]? { components.first { $0.label == label }?.digest }

    /// The labels of components that the other key lacks, or has with another digest.
    func changes(from other: Key) -> [String] { components.filter { !other.components.contains($0) }.map(\.label) }

    /// The lines of a function whose digests are not among those of the other key.
    func changedLines(of label: String, from other: Key) -> [UInt32] {
        let before = Set(other.lines[label, default: [:]].values)
        return lines[label, default: [:]].filter { !before.contains($0.value) }.keys.sorted()
    }

    init(_ parcel: Parcel, _ role: clua_parcel_role = CLUA_BODY) throws(KeyError) {
        var key = unsafe clua_key()
        let status = unsafe clua_key_make(parcel.pointer, role, nil, &key)
        defer { unsafe clua_key_free(&key) }
        if status == CLUA_KEY_NO_MEMORY { throw .noMemory }
        guard status == CLUA_KEY_MADE else { throw KeyError.malformed }
        for index in 0..<(unsafe key.component_count) {
            let component = unsafe key.components[index]
            let label = unsafe String(cString: component.label)
            components.append(Component(label: label, digest: unsafe [component.digest.low, component.digest.high]))
            for line in 0..<(unsafe component.line_count) {
                unsafe lines[label, default: [:]][component.lines[line].number] = component.lines[line].digest
            }
        }
        for index in 0..<(unsafe key.module_count) { modules.append(unsafe String(cString: key.modules[index]!)) }
        for index in 0..<(unsafe key.met_count) { met.append(unsafe String(cString: key.met[index].path)) }
    }
}

extension State {
    /// The key of the results of `source` in a state of its own: a function and its arguments.
    static func key(of source: String, _ role: clua_parcel_role = CLUA_BODY) throws -> Key {
        try Key(try State().encode(source, as: role), role)
    }
}
