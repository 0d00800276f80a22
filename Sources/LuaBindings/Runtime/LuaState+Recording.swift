import CLua
import OpEngine

#if canImport(Glibc)
    import Glibc
#endif

extension LuaState {
    /// A cache of the texts of places.
    struct Places {
        private static let capacity = 64
        private var entries: [Entry?] = []

        private struct Entry {
            /// The address of the chunk's name, as a number.
            let source: Int
            let line: Int32
            /// The chunk's name as Lua shows it.
            let name: [CChar]
            let text: String
        }

        /// The text of a place, such as `build.lua:12`.
        mutating func text(of place: clua_place) -> String {
            if entries.isEmpty { entries = Array(repeating: nil, count: Places.capacity) }
            let (source, line) = unsafe (Int(bitPattern: place.source), place.line)
            let slot = (source >> 4 ^ Int(line)) & (Places.capacity - 1)
            var characters = unsafe place.text
            return unsafe withUnsafeBytes(of: &characters) { bytes in
                let name = unsafe bytes.bindMemory(to: CChar.self)
                // Another chunk may be at the same address later, so compare the name, which ends with a zero.
                if let entry = entries[slot], entry.source == source, entry.line == line, let start = name.baseAddress,
                    unsafe strcmp(entry.name, start) == 0
                {
                    return entry.text
                }
                let length = unsafe name.firstIndex(of: 0) ?? name.count
                let text = unsafe "\(String(decoding: bytes.prefix(length), as: UTF8.self)):\(line)"
                entries[slot] = unsafe Entry(source: source, line: line, name: Array(name.prefix(length)) + [0], text: text)
                return text
            }
        }
    }

    /// Whether a recorder is recording the runtime's engine.
    @inline(__always) var isRecorded: Bool { core.engine.isRecorded }

    /// The line that the script is executing, such as `build.lua:12`. Nil if no script is running.
    var currentPlace: String? {
        var place = unsafe clua_place()
        guard unsafe clua_find_place(running, &place) else { return nil }
        return unsafe places.text(of: place)
    }
}
