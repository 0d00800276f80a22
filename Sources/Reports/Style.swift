import Glibc

/// Colours of messages on stderr. They are used only on a terminal that has colours, and not if `NO_COLOR` is set.
enum Style {
    private static let isUsed = isatty(STDERR_FILENO) != 0 && Environment.hasCapableTerminal && Environment.allowsColors

    static func bold(_ text: String) -> String { styled(text, "1") }

    static func red(_ text: String) -> String { styled(text, "31") }

    private static func styled(_ text: String, _ code: String) -> String { isUsed ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text }
}
