/// A browser without a window.
enum Browser {
    /// The command that opens a page and writes its elements on stdout when the page is complete, and messages of its scripts on stderr.
    static func command(opening url: String, in directory: ScratchDirectory) -> Command {
        Command(
            program: "chromium-headless-shell", name: "chromium-headless-shell",
            arguments: [
                "--no-sandbox", "--dump-dom", "--virtual-time-budget=3000", "--enable-logging=stderr",
                "--user-data-dir=\(directory.path)/profile", url,
            ], environment: ["HOME": directory.path])
    }

    /// The elements of a page, without those of its scripts and styles.
    static func elements(_ page: String) -> String { page.replacing(/<(script|style)[^>]*>(?s:.*?)<\/\1>/, with: "") }
}
