import Testing

/// The fenced code in a Markdown file.
enum Markdown {
    /// The text between two lines that begin with ` ``` `.
    struct Block {
        /// The word after the opening fence, such as `lua`; may be empty.
        let language: String
        /// The line of the opening fence, counted from 1.
        let line: Int
        var text = ""
    }

    static func blocks(in text: String) -> [Block] {
        var blocks: [Block] = []
        var isOpen = false
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if line.hasPrefix("```") {
                isOpen.toggle()
                if isOpen { blocks.append(Block(language: String(line.dropFirst(3)), line: number + 1)) }
            } else if isOpen {
                blocks[blocks.count - 1].text += line + "\n"
            }
        }
        return blocks
    }
}

/// A script in a document, and its output according to the document: the block that follows, when it has no language. A script before a block of
/// the language `console` is a file for the commands there (`Transcript`).
struct DocumentedScript: CustomTestStringConvertible {
    let file: String
    let line: Int
    let text: String
    let output: String?
    var testDescription: String { "\(file):\(line)" }

    static func all(in file: String) -> [DocumentedScript] {
        guard let bytes = Paths.read("\(Paths.package)/\(file)") else { return [] }
        let blocks = Markdown.blocks(in: String(decoding: bytes, as: UTF8.self))
        return blocks.indices.filter { blocks[$0].language == "lua" }.compactMap { index in
            let next = index + 1 < blocks.count ? blocks[index + 1] : nil
            return next?.language == "console"
                ? nil
                : DocumentedScript(
                    file: file, line: blocks[index].line, text: blocks[index].text, output: next?.language == "" ? next?.text : nil)
        }
    }
}
