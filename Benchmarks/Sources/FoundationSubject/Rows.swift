import Foundation
import Measuring

private struct Row: Codable {
    let id: Int
    let name: String
    let score: Double
    let isValid: Bool
    let tags: [String]
}

/// Milliseconds of decoding 10,000 rows from JSON.
func decodeRows(_ count: Int) -> Double {
    let rows = (1...10_000).map {
        Row(id: $0, name: "row \($0)", score: Double($0) / 3, isValid: $0 % 2 == 0, tags: ["a", "b\($0)"])
    }
    do {
        let json = try JSONEncoder().encode(rows)
        return try nanoseconds {
            for _ in 0..<count {
                let rows = try JSONDecoder().decode([Row].self, from: json)
                precondition(rows.count == 10_000 && rows[9999].tags[1] == "b10000")
            }
        } / Double(count) / 1e6
    } catch { fatalError("\(error)") }
}
