public import Glibc

/// Blocks of memory from `malloc`, which are aligned to 16 bytes. `UnsafeMutableRawPointer.allocate` asks the allocator for an
/// alignment, which takes about three times as long.
public enum Memory {
    /// Returns a block of at least `size` bytes. Traps if there is no memory.
    @inlinable public static func allocate(_ size: Int) -> UnsafeMutableRawPointer {
        // Smaller blocks may be aligned less.
        guard let block = unsafe malloc(max(size, 16)) else { fatalError("opscript: out of memory") }
        return unsafe block
    }

    /// Frees a block.
    @inlinable public static func free(_ block: UnsafeMutableRawPointer) { unsafe Glibc.free(block) }
}
