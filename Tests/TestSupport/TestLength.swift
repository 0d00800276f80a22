import Glibc

/// How long the tests that can be made longer take.
public enum TestLength {
    /// `OPSCRIPT_LONG_TESTS=1` was set.
    public static var isLong: Bool { environment("OPSCRIPT_LONG_TESTS") == "1" }

    /// A number of things that is about size: a tenth with `OPSCRIPT_SHORT_TESTS=1`, for sanitizers, which are slow.
    public static func size(_ full: Int) -> Int { environment("OPSCRIPT_SHORT_TESTS") == "1" ? full / 10 : full }

    /// A variable of the environment.
    public static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// A number in the environment.
    public static func number(_ name: String) -> Int? { environment(name).flatMap { Int($0) } }
}
