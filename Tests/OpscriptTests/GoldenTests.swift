import Glibc
import Testing

/// Each script in `Golden` is a test: its outcome must match the files beside it.
///
/// `NAME.expected` is its stdout. Optional: `NAME.stderr` (default: empty), `NAME.status` (default: 0), `NAME.args` (one argument a line).
struct Golden: CustomTestStringConvertible {
    let name: String
    var testDescription: String { name }

    static let all: [Golden] = {
        guard let directory = unsafe opendir(Paths.golden) else { return [] }
        defer { unsafe closedir(directory) }
        var names: [String] = []
        while let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { start in
                unsafe start.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
            }
            if name.hasSuffix(".lua") { names.append(String(name.dropLast(4))) }
        }
        return names.sorted().map(Golden.init(name:))
    }()

    /// The bytes of the file with this suffix, if it exists.
    func file(_ suffix: String) -> [UInt8]? { Paths.read("\(Paths.golden)/\(name).\(suffix)") }

    func text(_ suffix: String) -> String? { file(suffix).map { String(decoding: $0, as: UTF8.self) } }

    func run() throws -> Outcome {
        var command = Command.opscript(name + ".lua").directory(Paths.golden)
        command.arguments += (text("args") ?? "").split(separator: "\n").map(String.init)
        return try command.run()
    }

    /// Writes the outcome into the files, as the new expectation.
    func update(to outcome: Outcome) throws {
        try Paths.write(outcome.output, to: "\(Paths.golden)/\(name).expected")
        for (suffix, bytes, isDefault) in [
            ("stderr", outcome.errors, outcome.errors.isEmpty),
            ("status", Array("\(outcome.status)\n".utf8), outcome.status == 0),
        ] {
            let path = "\(Paths.golden)/\(name).\(suffix)"
            if isDefault { _ = unsafe unlink(path) } else { try Paths.write(bytes, to: path) }
        }
    }
}

@Suite("Golden scripts")
struct GoldenTests {
    @Test("There are golden scripts")
    func found() {
        #expect(!Golden.all.isEmpty)
    }

    @Test("A script has the outcome that the files beside it state", arguments: Golden.all)
    func golden(script: Golden) throws {
        let outcome = try script.run()
        if Paths.environment("OPSCRIPT_UPDATE_GOLDEN") == "1" { return try script.update(to: outcome) }
        let expected = Outcome(
            status: script.text("status").flatMap { Int32($0.filter(\.isNumber)) } ?? 0,
            output: try #require(script.file("expected"), "there is no \(script.name).expected"),
            errors: script.file("stderr") ?? [])
        let advice = """
            Tests/OpscriptTests/Golden/\(script.name).lua did something else than the files beside it say.
            If it is right now: OPSCRIPT_UPDATE_GOLDEN=1 scripts/test --quick --filter Golden, and read the difference.
            """
        if outcome != expected {
            Issue.record("\(advice)\n--- expected\n\(expected)\n--- found\n\(outcome)")
        }
    }
}
