import Foundation
import Testing

/// The tests that docs/operation-semantics.md names exist.
@Suite struct DocumentationTests {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    private static let page = tests.deletingLastPathComponent().appendingPathComponent("docs/operation-semantics.md")

    /// The text of every test file, by the file's name without its extension.
    private static func suites() throws -> [String: String] {
        var suites: [String: String] = [:]
        let files = FileManager.default.enumerator(at: tests, includingPropertiesForKeys: nil)
        for case let file as URL in files ?? .init() where file.pathExtension == "swift" {
            suites[file.deletingPathExtension().lastPathComponent, default: ""] += try String(contentsOf: file, encoding: .utf8)
        }
        return suites
    }

    @Test func everyNamedTestExists() throws {
        let suites = try Self.suites()
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let names = text.matches(of: #/`(\w+Tests)\.(\w+)`/#)
        #expect(names.count > 50)
        for name in names {
            let isThere = suites[String(name.1)]?.contains("func \(name.2)(") == true
            #expect(isThere, "there is no test \(name.2) in \(name.1).swift")
        }
    }

    @Test func everyClauseHasARowWithATestOrSaysNotYet() throws {
        let text = try String(contentsOf: Self.page, encoding: .utf8)
        let rows = text.split(separator: "\n").filter { $0.firstMatch(of: #/^\| \d+ \|/#) != nil }
        #expect(rows.compactMap { Int($0.split(separator: " ")[1]) } == Array(1...41))
        for row in rows { #expect(row.contains("Tests.") || row.contains("*Not yet:*"), "\(row.prefix(60))") }
    }
}
