import Glibc

/// Colours of messages on stderr: only on a terminal that has them, and unless `NO_COLOR` is set.
enum Style {
    private static let isUsed: Bool = {
        let term = variable("TERM")
        return isatty(STDERR_FILENO) != 0 && !term.isEmpty && term != "dumb" && variable("NO_COLOR").isEmpty
    }()

    static func bold(_ text: String) -> String { styled(text, "1") }

    static func red(_ text: String) -> String { styled(text, "31") }

    private static func styled(_ text: String, _ code: String) -> String { isUsed ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text }

    private static func variable(_ name: String) -> String {
        guard let value = unsafe getenv(name) else { return "" }
        return unsafe String(cString: value)
    }
}
