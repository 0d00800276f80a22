import Glibc

/// The environment variables that the command and the module for `lua5.4` heed. The command reads its other variables here as well.
package enum Environment {
    /// The value of a variable; nil if it is not set.
    package static func value(_ name: String) -> String? {
        guard let value = unsafe getenv(name) else { return nil }
        return unsafe String(cString: value)
    }

    /// Sets a variable. Call this before the process has other threads.
    package static func set(_ name: String, _ value: String) { _ = unsafe setenv(name, value, 1) }

    /// Whether the terminal, if there is one, can move its cursor and show colours.
    package static var hasCapableTerminal: Bool { !["", "dumb"].contains(value("TERM") ?? "") }

    /// Whether the user accepts colours. See no-color.org.
    package static var allowsColors: Bool { (value("NO_COLOR") ?? "").isEmpty }
}
