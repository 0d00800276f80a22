extension ErrorReport {
    /// The report as the command shows it. The first line has the form of Lua's messages: `prefix`, then file, line and text.
    ///
    /// - Parameter notes: lines between the source line and the traceback.
    package func text(prefix: String, notes: [String] = []) -> String {
        let source = excerpt.enumerated().map { $0 == 1 ? Style.red($1) : $1 }
        return ([prefix + Style.bold(message)] + source + notes + traceback).joined(separator: "\n") + "\n"
    }
}
