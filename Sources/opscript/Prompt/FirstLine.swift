extension String {
    /// The first line that was typed at a prompt, as Lua. A line that begins with `=` is an expression, as in Lua 5.2.
    var asFirstLine: String { hasPrefix("=") ? "return \(dropFirst())" : self }
}
