import OpStore

/// The options of an operation that asks the store, as a script has written them.
struct StepOptions: Sendable {
    var inputs: [String] = []
    /// Those of `inputs` that may be missing.
    var optionalInputs: Set<String> = []
    var outputs: [String] = []
    /// Whether the body must write each output under the temporary name that the operation gives it.
    var isAtomic = false
    var depfile: String?
    /// The folder that paths in the depfile are relative to; nil for the working directory.
    var depfileDirectory: String?
    /// The names of the environment variables that count.
    var environment: [String] = []
    var version: Digest?
    /// Whether the operation asks the store although it has no files.
    var memoizes = false
    var keepsOutputsOnFailure = false
    /// The place of the function of an operation without outputs: `<build.lua:12>`.
    var place = ""

    /// `place` without the line.
    var file: Substring { place.prefix(upTo: place.lastIndex(of: ":") ?? place.endIndex) }

    /// Whether the operation asks the store. With `environment` and `version` alone, it does not.
    var asksStore: Bool { memoizes || !inputs.isEmpty || !outputs.isEmpty || depfile != nil }
}
