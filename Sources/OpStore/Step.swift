/// An operation as the store sees it: the things that its result depends on, and the files that it makes.
///
/// Paths are relative to `directory`.
public struct Step: Sendable {
    /// The step's name in messages, such as "compile a.c" or "build.lua:12".
    public var name: String

    /// Identifies the earlier work to compare with after a change: for example the outputs, or the name and the place of the function. It is
    /// the same in each run. Several steps may have the same one. It is not part of the key.
    public var identity: String

    /// The things besides files that the result depends on, in an order that is the same in each run.
    public var components: [Component]

    /// The files that the step reads: paths and patterns with `*`, `?`, `[a-z]` and `**` (any folders). A step with a folder among its inputs
    /// or outputs is never up to date.
    public var inputs: [String] = []

    /// Those of `inputs` that may be missing: no file has the path, or matches the pattern. The step runs again when such a file appears.
    public var optionalInputs: Set<String> = []

    /// The files that the step makes. A step is up to date only while they exist with the contents that it has made.
    public var outputs: [String] = []

    /// A file in the format of `cc -MF`, written by the body, with further files that the step has read.
    public var depfile: String?

    /// The folder that relative paths in the depfile are relative to. Nil: `directory`.
    public var depfileDirectory: String?

    /// Whether the store keeps a value as well. If so, work without one is not up to date.
    public var memoizes = false

    /// Whether the outputs stay where they are when the body fails.
    public var keepsOutputsOnFailure = false

    /// The folder that relative paths are relative to. Nil: the working directory of the process when the store was made.
    public var directory: String?

    /// Creates a step without files and value.
    public init(name: String, identity: String, components: [Component]) {
        self.name = name
        self.identity = identity
        self.components = components
    }

    /// One of the things that a result depends on.
    public struct Component: Hashable, Sendable {
        /// Names the thing that has changed when the digest differs: "argument 2", "function 'compile'", "environment variable 'CC'". Part of
        /// the key.
        public var label: String
        /// The digest of the contents, which shows a change. Part of the key.
        public var digest: Digest
        /// The lines of a function, which show the line of a change. Not part of the key.
        public var lines: [Line] = []

        /// Creates a component without lines.
        public init(label: String, digest: Digest) {
            self.label = label
            self.digest = digest
        }

        /// The instructions of a line, and its number in the file.
        public struct Line: Hashable, Sendable {
            /// From 1, in the file as it is now.
            public var number: Int
            /// The digest of the line's instructions.
            public var digest: UInt64

            /// Creates a line.
            public init(number: Int, digest: UInt64) {
                self.number = number
                self.digest = digest
            }
        }

        /// The first line that differs from those of earlier work; nil if the digests do not show one.
        func firstLine(differingFrom digests: [UInt64]) -> Int? {
            if lines.isEmpty || digests.isEmpty || lines.elementsEqual(digests, by: { $0.digest == $1 }) { return nil }
            let pairs = zip(lines, digests)
            return pairs.first { $0.digest != $1 }?.0.number ?? lines[min(digests.count, lines.count - 1)].number
        }
    }
}
