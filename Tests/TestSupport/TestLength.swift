import Glibc

/// The length of tests, which environment variables change.
public enum TestLength {
    /// Whether `OPSCRIPT_LONG_TESTS=1` is set.
    public static var isLong: Bool { environment("OPSCRIPT_LONG_TESTS") == "1" }

    /// Whether `OPSCRIPT_SHORT_TESTS=1` is set, for sanitizers, which are slow.
    public static var isShort: Bool { environment("OPSCRIPT_SHORT_TESTS") == "1" }

    /// The size of a large test: a tenth of `full` if tests are to be short.
    public static func size(_ full: Int) -> Int { isShort ? full / 10 : full }

    /// Whether `OPSCRIPT_QUICK_TESTS=1` is set, for a run between two edits.
    public static var isQuick: Bool { environment("OPSCRIPT_QUICK_TESTS") == "1" }

    /// The distance between the cases of a long series that are tried. In a short run it is random and at least 3.
    public static var stride: Int { isShort ? Int.random(in: 3...5) : 1 }

    /// The value of an environment variable.
    public static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// The value of an environment variable that is a number.
    public static func number(_ name: String) -> Int? { environment(name).flatMap { Int($0) } }
}
