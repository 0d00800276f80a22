internal import CStore
import Glibc

/// The files at the moment when a body began.
struct Start {
    private struct Input {
        var path: String
        var state: FileState
        var status: cstore_status
    }

    /// `cstore_file_clock` when the body began.
    private let moment: Int64
    private let inputs: [Input]
    /// The matches of each pattern.
    private let matches: [[String]]
    /// The outputs of earlier runs. The digest is that of the contents if the body could change them without a change of the signature.
    private let outputs: [String: (signature: Digest, contents: Digest?)]

    /// In nanoseconds. A file that was changed so shortly before a body begins may have been changed in the same tick.
    private static let recent: Int64 = 20_000_000

    init(_ step: ResolvedStep, _ files: FileStates) {
        matches = step.patterns.map { step.matches(of: $0, in: files) }
        var seen: Set<String> = []
        inputs = (step.inputs + matches.joined()).filter { seen.insert($0).inserted }.map { path in
            Input(path: path, state: files.state(of: path), status: files.status(of: path))
        }
        outputs = step.outputs.reduce(into: [:]) { outputs, path in
            let status = files.status(of: path)
            if status.kind == CSTORE_ABSENT { return }
            let isSettled = FileStates.isSettled(status, at: cstore_file_clock())
            outputs[path] = (Digest(status.signature), isSettled ? nil : files.state(of: path).digest)
        }
        // The files of the depfile were then probably written just now, too. After the wait, their times are before the beginning of the body.
        if step.depfile != nil, inputs.contains(where: { $0.status.changed > cstore_file_clock() - Self.recent }) { cstore_wait_for_tick() }
        moment = cstore_file_clock()
    }

    /// Whether the output is still the file that an earlier run has left.
    func hasUnchanged(_ output: String, _ files: FileStates) -> Bool {
        guard let before = outputs[output], Digest(files.status(of: output).signature) == before.signature else { return false }
        return before.contents.map { files.state(of: output).digest == $0 } ?? true
    }

    /// The files to record, now that the body has returned.
    func examine(_ step: ResolvedStep, _ store: Store) throws(NotRecorded) -> [Record.File] {
        let files = store.files
        var recorded: [Record.File] = []
        for (pattern, before) in zip(step.patterns, matches) {
            let now = step.matches(of: pattern, in: files)
            if now != before { throw NotRecorded(reason: "the files of '\(pattern)' changed while it ran") }
            let state = FileState(
                kind: .file, digest: ResolvedStep.digest(ofMatches: now), signature: Digest(high: 0, low: 0), isSettled: false)
            recorded.append(Record.File(role: .pattern, path: pattern, state: state))
        }
        for input in inputs {
            recorded.append(Record.File(role: .input, path: input.path, state: try unchanged(input, files)))
        }
        if let depfile = step.depfile {
            var known = Set(inputs.map(\.path) + step.outputs + [depfile])
            for name in try names(in: depfile, of: step, store) {
                let path = store.paths.recorded(name, in: step.directory)
                if !known.insert(path).inserted { continue }
                guard let state = files.state(of: path, at: moment), state.kind == .file else {
                    throw NotRecorded(
                        reason: files.status(of: path).kind == CSTORE_FILE
                            ? "input '\(path)' changed while it ran" : "input '\(path)' of its depfile is not there")
                }
                recorded.append(Record.File(role: .input, path: path, state: state))
            }
        }
        for output in step.outputs {
            let state = files.state(of: output)
            switch state.kind {
            case .file: recorded.append(Record.File(role: .output, path: output, state: state))
            case .absent: throw NotRecorded(reason: "it did not make its output '\(output)'")
            case .other: throw NotRecorded(reason: "its output '\(output)' is not a file that can be read")
            }
        }
        return recorded
    }

    private func unchanged(_ input: Input, _ files: FileStates) throws(NotRecorded) -> FileState {
        let state = files.state(of: input.path), status = files.status(of: input.path)
        // A new link to the file changes its ctime, but not the bytes that the body has read.
        let isTouched = status.changed != input.status.changed && status.links == input.status.links
        guard state.hasContents(of: input.state), status.inode == input.status.inode, status.modified == input.status.modified, !isTouched
        else {
            throw NotRecorded(
                reason: state.kind == .other
                    ? "its input '\(input.path)' is not a file that can be read" : "input '\(input.path)' changed while it ran")
        }
        return state
    }

    private func names(in depfile: String, of step: ResolvedStep, _ store: Store) throws(NotRecorded) -> [String] {
        guard let text = store.files.contents(of: depfile) else { throw NotRecorded(reason: "it did not write its depfile '\(depfile)'") }
        guard let rules = Depfile.rules(in: text) else { throw NotRecorded(reason: "its depfile '\(depfile)' has no rule") }
        // With targets of another folder, the prerequisites are in that folder, too.
        let targets = rules.targets.map { store.paths.recorded(TemporaryName.original(of: $0), in: step.directory) }
        if !step.outputs.isEmpty, !targets.contains(where: step.outputs.contains) {
            throw NotRecorded(
                reason: "its depfile '\(depfile)' has rules for '\(rules.targets.first ?? "")', not for its output '\(step.outputs[0])' "
                    + "(depfile = { path, cwd = folder } names the folder of the compiler)")
        }
        return rules.prerequisites
    }
}
