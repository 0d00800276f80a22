import Testing

@Suite("Documentation")
struct DocumentationTests {
    private static let files = [
        "README.md", "docs/coming-from.md", "docs/limits.md", "docs/lua-api.md", "docs/lua-api-data.md", "docs/lua-api-outside.md",
        "docs/lua-api-runtime.md", "docs/modules.md",
    ]
    private static let scripts = files.flatMap { DocumentedScript.all(in: $0) }

    @Test("Every document has scripts")
    func found() {
        #expect(Set(Self.scripts.map(\.file)) == Set(Self.files))
    }

    @Test("A script in a document prints the output that the document shows", arguments: scripts)
    func script(script: DocumentedScript) throws {
        let expected = try #require(script.output, "no block with the output follows the script")
        let store = try ScratchDirectory()
        let outcome = try Command.opscript("--store", store.path, "-").input(script.text).run()
        #expect(outcome.text == expected && outcome.errors.isEmpty && outcome.status == 0, "\(outcome)")
    }
}
