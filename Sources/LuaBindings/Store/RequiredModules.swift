/// Finds the names in `require "NAME"` and `require("NAME")` in a source. A name in a comment only adds a module to a key.
enum RequiredModules {
    static func names(in source: [UInt8]) -> [String] {
        let word = Array("require".utf8)
        var names: [String] = [], at = 0
        while at + word.count < source.count {
            guard source[at] == word[0], source[at..<at + word.count].elementsEqual(word) else {
                at += 1
                continue
            }
            at += word.count
            var next = at
            while next < source.count, [32, 9, 10, 13, UInt8(ascii: "(")].contains(source[next]) { next += 1 }
            guard next < source.count, source[next] == UInt8(ascii: "\"") || source[next] == UInt8(ascii: "'") else { continue }
            guard let end = source[(next + 1)...].firstIndex(of: source[next]), end - next < 200 else { continue }
            names.append(String(decoding: source[next + 1..<end], as: UTF8.self))
        }
        return names
    }
}
