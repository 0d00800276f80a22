/// The reason why a run cannot be recorded or a file cannot be written.
struct RecordingError: Error {
    let message: String
}
