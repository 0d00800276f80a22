/// A text that is written into JSON, perhaps several times.
///
/// `escaped` is the text between the quotes of a JSON string. Control characters and `<` are escaped, so the text can do no harm in an HTML
/// page.
struct JSONText {
    let text: String
    let escaped: String

    init(_ text: String) {
        self.text = text
        // Few texts have characters to escape.
        escaped = text.utf8.contains(where: Self.isEscaped) ? Self.escape(text) : text
    }

    private static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "<") || byte == 0x7F
    }

    private static func escape(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): bytes += "\\n".utf8
            case _ where isEscaped(byte): bytes += ("\\u00" + (byte < 16 ? "0" : "") + String(byte, radix: 16)).utf8
            default: bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
