extension Runtime {
    /// The version of opscript. The members of a cluster must have the same.
    public static let version = "0.2.0"
}
