import CPlatform

/// Processes that were forked and have executed no program since.
package enum ForkedProcess {
    /// Whether this process is one.
    package static var isCurrent: Bool { cplatform_get_fork_count() != 0 }
}
