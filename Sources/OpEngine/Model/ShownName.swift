extension String {
    /// The name as messages show it: control characters, which a terminal would obey, as in Lua's source.
    package var shown: String {
        func isControl(_ scalar: Unicode.Scalar) -> Bool { scalar.value < 0x20 || 0x7f...0x9f ~= scalar.value }
        guard unicodeScalars.contains(where: isControl) else { return self }
        return unicodeScalars.map { isControl($0) ? "\\x\($0.value < 16 ? "0" : "")\(String($0.value, radix: 16))" : String($0) }.joined()
    }
}
