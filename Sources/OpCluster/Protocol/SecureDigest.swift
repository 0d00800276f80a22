import CNats

/// A digest of bytes with SHA-256. Two different contents with one digest cannot be found.
package struct SecureDigest: Hashable, Sendable {
    private let bytes: [UInt8]

    /// The digest of bytes. A process without libcrypto has no connection to a cluster, and must not call this.
    package init(of contents: [UInt8]) {
        bytes = unsafe [UInt8](unsafeUninitializedCapacity: Int(CNATS_DIGEST_COUNT)) { digest, count in
            guard unsafe cnats_digest(contents, contents.count, digest.baseAddress) else {
                fatalError("opscript bug: a digest without libcrypto")
            }
            count = Int(CNATS_DIGEST_COUNT)
        }
    }
}
