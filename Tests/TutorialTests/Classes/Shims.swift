extension String {
    /// Foundation's, for the files that do not import it: the first letter in upper case.
    var capitalized: String { prefix(1).uppercased() + dropFirst().lowercased() }
}
