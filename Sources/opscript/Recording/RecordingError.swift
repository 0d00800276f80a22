/// Why a run cannot be recorded, or a file not be written.
struct RecordingError: Error {
    let message: String
}
