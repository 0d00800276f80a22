import Glibc

/// The file that `--graph` writes at the end of a run: the graph as text, or a picture of it.
final class GraphFile {
    /// Graphviz takes minutes for larger graphs.
    private static let mostNodes = 2000
    private static let mostEdges = 6000

    private let path: String
    private let file: OutputFile
    /// The picture's format; nil for text.
    private let format: String?
    private let graphviz: Graphviz?

    /// Opens the file.
    ///
    /// - Throws: an error if it cannot be written, or if it is to be a picture and Graphviz is not installed.
    init(_ path: String) throws(RecordingError) {
        self.path = path
        let isText = path.hasSuffix(".dot")
        format = isText ? nil : String(path.suffix(3))
        graphviz = isText ? nil : Graphviz()
        if !isText && graphviz == nil {
            throw RecordingError(
                message: "--graph: a picture needs the program 'dot': install the package graphviz, or name a file that ends in .dot")
        }
        file = try OutputFile(path, for: "--graph")
    }

    /// Writes the graph and closes the file.
    ///
    /// - Returns: messages for the user about all errors.
    func finish(_ log: RunLog) -> [String] {
        guard let graphviz, let format else {
            GraphWriter(log: log, file: file).write()
            return close(file)
        }
        let (nodes, edges) = (log.operations.count, log.edges.count)
        if nodes > GraphFile.mostNodes || edges > GraphFile.mostEdges {
            return writeText(log, because: "\(nodes) operations with \(edges) dependencies are too many for a picture")
        }
        guard let text = unsafe tmpfile() else {
            return writeText(log, because: "no temporary file: \(unsafe String(cString: strerror(errno)))")
        }
        defer { unsafe _ = fclose(text) }
        let descriptor = unsafe fileno(text)
        let graph = OutputFile(descriptor: descriptor, path: path)
        GraphWriter(log: log, file: graph).write()
        graph.flush()
        if let failure = graph.failure {
            return writeText(log, because: "cannot write a temporary file: \(unsafe String(cString: strerror(failure)))")
        }
        if let reason = graphviz.draw(format, from: descriptor, to: file.descriptor) { return writeText(log, because: reason) }
        return close(file)
    }

    /// Writes the text to a file beside the picture's place, because the picture could not be drawn.
    private func writeText(_ log: RunLog, because reason: String) -> [String] {
        // An empty file would look like a broken picture.
        if file.isSeekable { unsafe _ = unlink(path) }
        file.close()
        do throws(RecordingError) {
            let text = try OutputFile("\(path).dot", for: "--graph")
            GraphWriter(log: log, file: text).write()
            return ["--graph: \(reason); the graph is in '\(path).dot'"] + close(text)
        } catch {
            return ["--graph: \(reason)", error.message]
        }
    }

    private func close(_ file: OutputFile) -> [String] {
        file.close()
        return file.failure.map { ["--graph: cannot write '\(file.path)': \(unsafe String(cString: strerror($0)))"] } ?? []
    }
}
