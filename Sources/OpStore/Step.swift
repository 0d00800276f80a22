/// An operation as the store sees it: what its result depends on, and what it makes.
///
/// Paths are relative to `directory`.
public struct Step: Sendable {
    /// What the store calls the step in messages, such as "compile a.c" or "build.lua:12".
    public var name: String

    /// Tells which earlier work to compare with when something has changed: the same in each run, such as the outputs, or the name and the
    /// place of the function. Several steps may have the same one. It is not part of the key.
    public var identity: String

    /// What the result depends on besides files, in an order that is the same in each run.
    public var components: [Component]

    /// The files that the step reads: paths and patterns with `*`, `?`, `[a-z]` and `**` (any folders). An input that does not exist is
    /// allowed: that it appears is then a change. A step with a folder among its inputs or outputs is never up to date.
    public var inputs: [String] = []

    /// The files that the step makes. A step is up to date only while they exist with the contents that it has made.
    public var outputs: [String] = []

    /// A file in the format of `cc -MF`, written by the body, with further files that the step has read.
    public var depfile: String?

    /// Whether a value is kept as well. Work without one is then not up to date.
    public var memoizes = false

    /// Whether the outputs stay where they are when the body fails.
    public var keepsOutputsOnFailure = false

    /// What relative paths are relative to. Nil: the working directory of the process when the store was made.
    public var directory: String?

    /// Creates a step without files and value.
    public init(name: String, identity: String, components: [Component]) {
        self.name = name
        self.identity = identity
        self.components = components
    }

    /// One of the things that a result depends on.
    public struct Component: Hashable, Sendable {
        /// What changed when the digest is another one: "argument 2", "function 'compile'", "environment variable 'CC'". Part of the key.
        public var label: String
        /// What it is, so that a change can be seen. Part of the key.
        public var digest: Digest
        /// The lines of a function, so that a change can be told by its line. Not part of the key.
        public var lines: [Line] = []

        /// Creates a component without lines.
        public init(label: String, digest: Digest) {
            self.label = label
            self.digest = digest
        }

        /// What a line does, and its number in the file.
        public struct Line: Hashable, Sendable {
            /// From 1, in the file as it is now.
            public var number: Int
            /// Of what the line does.
            public var digest: UInt64

            /// Creates a line.
            public init(number: Int, digest: UInt64) {
                self.number = number
                self.digest = digest
            }
        }

        /// The first line that differs from those of earlier work; nil if that does not tell.
        func firstLine(differingFrom digests: [UInt64]) -> Int? {
            if lines.isEmpty || digests.isEmpty || lines.elementsEqual(digests, by: { $0.digest == $1 }) { return nil }
            let pairs = zip(lines, digests)
            return pairs.first { $0.digest != $1 }?.0.number ?? lines[min(digests.count, lines.count - 1)].number
        }
    }
}
