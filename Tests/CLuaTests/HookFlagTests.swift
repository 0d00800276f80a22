import CLua
import Testing

/// The byte of a coroutine with which Lua allows hooks.
@Suite struct HookFlagTests {
    /// The blocks of one Lua state. Nothing is freed before the end.
    @safe private struct Blocks {
        static let size = 1 << 16
        let memory: UnsafeMutableRawPointer
        var used = 0

        /// The first block has the main coroutine. The third byte of its address is 1, and that of all other blocks is 0.
        mutating func allocate(_ count: Int) -> UnsafeMutableRawPointer? {
            guard used + count <= Self.size else { return nil }
            let isFirst = used == 0
            defer { used += (count + 15) & ~15 }
            return unsafe memory + used + (isFirst ? Self.size : 0)
        }
    }

    @Test func isFoundWhateverTheAddressesOfALuaState() throws {
        let memory = UnsafeMutableRawPointer.allocate(byteCount: 2 * Blocks.size, alignment: 1 << 24)
        defer { unsafe memory.deallocate() }
        var blocks = unsafe Blocks(memory: memory)
        unsafe try withUnsafeMutablePointer(to: &blocks) { blocks in
            let allocate: lua_Alloc = { context, block, oldSize, newSize in
                guard newSize > 0 else { return nil }
                let blocks = unsafe context!.assumingMemoryBound(to: Blocks.self)
                guard let new = unsafe blocks.pointee.allocate(newSize) else { return nil }
                if let block = unsafe block { unsafe new.copyMemory(from: block, byteCount: min(oldSize, newSize)) }
                return unsafe new
            }
            let lua = try unsafe #require(lua_newstate(allocate, blocks))
            defer { unsafe lua_close(lua) }
            let offset = unsafe clua_hook_flag_offset(lua)
            #expect(offset > 0)
            // Outside of hooks and finalizers, Lua allows hooks.
            #expect(unsafe UnsafeRawPointer(lua).load(fromByteOffset: Int(offset), as: UInt8.self) == 1)
        }
    }
}
