extension String {
    /// Foundation's property, for files that do not import Foundation: the first letter in upper case.
    var capitalized: String { prefix(1).uppercased() + dropFirst().lowercased() }
}
