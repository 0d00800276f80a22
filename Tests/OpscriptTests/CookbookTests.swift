import Testing

/// A file of `examples/cookbook`, and its section in docs/cookbook.md: a link to the file, followed by its text and its output.
struct Recipe: CustomTestStringConvertible {
    static let directory = "examples/cookbook"
    static let page = "docs/cookbook.md"

    /// The path relative to the directory of recipes.
    let name: String
    /// The code on the page; nil when the page does not have the recipe.
    private(set) var code: String?
    /// The output according to the page.
    private(set) var output: String?
    var testDescription: String { name }

    /// Whether only other recipes use the file.
    var isModule: Bool { name.contains("/") }

    /// The recipes on the page, in its order.
    static let ofPage: [Recipe] = {
        let text = String(decoding: Paths.read("\(Paths.package)/\(page)") ?? [], as: UTF8.self)
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let blocks = Markdown.blocks(in: text)
        return blocks.indices.compactMap { index in
            // The link is two lines above the block: the link, an empty line, the fence.
            guard blocks[index].language == "lua", blocks[index].line > 2 else { return nil }
            let link = lines[blocks[index].line - 3].split(separator: "](../\(directory)/")
            guard link.count == 2, link[1].hasSuffix(")") else { return nil }
            let next = index + 1 < blocks.count && blocks[index + 1].language == "" ? blocks[index + 1].text : nil
            return Recipe(name: String(link[1].dropLast()), code: blocks[index].text, output: next)
        }
    }()

    static let files =
        (try? Command.shell("cd \"$1\" && find . -name '*.lua' | LC_ALL=C sort", "\(Paths.package)/\(directory)").run())?
        .lines.map { String($0.dropFirst(2)) } ?? []

    static let all = files.map { name in ofPage.first { $0.name == name } ?? Recipe(name: name) }
}

@Suite("Cookbook")
struct CookbookTests {
    @Test("The page has every recipe once, in the order of the numbers")
    func found() {
        #expect(Recipe.ofPage.map(\.name).filter { !$0.contains("/") } == Recipe.files.filter { !$0.contains("/") })
        #expect(Recipe.files.count >= 15)
    }

    @Test("The code on the page equals the file of the recipe", arguments: Recipe.all)
    func code(recipe: Recipe) throws {
        let path = "\(Recipe.directory)/\(recipe.name)"
        let code = try #require(recipe.code, "\(Recipe.page) has no code below a link to \(path)")
        let file = String(decoding: try #require(Paths.read("\(Paths.package)/\(path)")), as: UTF8.self)
        let (shown, real) = (code.split(separator: "\n"), file.split(separator: "\n"))
        let difference = zip(shown, real).first { $0 != $1 } ?? (shown.last ?? "", real.last ?? "")
        #expect(code == file, "\(Recipe.page) shows another \(path); first difference: '\(difference.0)', the file has '\(difference.1)'")
    }

    @Test("A recipe prints the output that the page shows", arguments: Recipe.all.filter { !$0.isModule })
    func output(recipe: Recipe) throws {
        let expected = try #require(recipe.output, "\(Recipe.page) has no block with the output of \(recipe.name)")
        let store = try ScratchDirectory()
        let outcome = try Command.opscript("--store", store.path, "\(Recipe.directory)/\(recipe.name)").directory(Paths.package).run()
        #expect(
            outcome.text == expected && outcome.errors.isEmpty && outcome.status == 0,
            "\(recipe.name) did something else than \(Recipe.page) says:\n\(outcome)")
    }
}
