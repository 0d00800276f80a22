internal import CStore

/// A step whose paths have the form of those in the records.
struct ResolvedStep {
    var inputs: [String] = []
    var patterns: [String] = []
    /// The inputs that must exist: each path as the step has it and as the records have it, and the pattern if it is one.
    private var required: [(written: String, recorded: String, pattern: String?)] = []
    let outputs: [String]
    let depfile: String?
    /// The folder that a depfile's relative paths are relative to.
    let directory: String?
    let identity: Digest
    let memoizes: Bool
    /// The components that are known when the step is planned. The last ones are the lists of files.
    private let components: [Step.Component]

    init(_ step: Step, _ paths: Paths) {
        for path in step.inputs {
            let recorded = paths.recorded(path, in: step.directory)
            // A file may have the name of a pattern.
            inputs.append(recorded)
            let pattern = Pattern.isPattern(path) ? Pattern.escaping(folderOf: path, in: recorded) : nil
            if let pattern { patterns.append(pattern) }
            if !step.optionalInputs.contains(path) { required.append((path, recorded, pattern)) }
        }
        outputs = step.outputs.map { paths.recorded($0, in: step.directory) }
        depfile = step.depfile.map { paths.recorded($0, in: step.directory) }
        directory = step.depfileDirectory.map { paths.absolute($0, in: step.directory) } ?? step.directory
        var hasher = Hasher128()
        hasher.combine(step.identity)
        identity = hasher.finalize()
        memoizes = step.memoizes
        var components = step.components
        components.reserveCapacity(components.count + 3)
        components.append(Step.Component(label: "the list of inputs", digest: Self.digest(inputs, patterns)))
        components.append(Step.Component(label: "the list of outputs", digest: Self.digest(outputs)))
        components.append(Step.Component(label: "the depfile", digest: depfile.map { Self.digest(CollectionOfOne($0)) } ?? Self.digest([])))
        self.components = components
    }

    private static func digest(_ names: some Sequence<String>, _ more: [String] = []) -> Digest {
        var hasher = Hasher128()
        for name in names { hasher.combine(name) }
        for name in more { hasher.combine(name) }
        return hasher.finalize()
    }

    /// All components. `others` are known only just before the step runs.
    func components(adding others: [Step.Component]) -> [Step.Component] { others + components }

    /// The key of work with all components.
    func key(adding others: [Step.Component]) -> Digest {
        var hasher = Hasher128()
        for component in others { component.combine(into: &hasher) }
        for component in components { component.combine(into: &hasher) }
        return hasher.finalize()
    }

    /// The matches of a pattern, without the files that the step itself makes.
    func matches(of pattern: String, in files: FileStates) -> [String] {
        files.matches(of: pattern).filter { !outputs.contains($0) && $0 != depfile }
    }

    /// The inputs that must exist and do not.
    func missingInputs(in files: FileStates) -> [Work.MissingInput] {
        required.filter { input in
            files.status(of: input.recorded).kind == CSTORE_ABSENT && (input.pattern.map { matches(of: $0, in: files).isEmpty } ?? true)
        }.map { Work.MissingInput(path: $0.written, isPattern: $0.pattern != nil) }
    }

    /// The digest of the matches of a pattern.
    static func digest(ofMatches matches: [String]) -> Digest { digest(matches) }
}

extension Step.Component {
    fileprivate func combine(into hasher: inout Hasher128) {
        hasher.combine(label)
        hasher.combine(digest)
    }
}
