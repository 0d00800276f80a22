import Glibc
import LuaBindings

/// A directory with Lua modules, removed at the end.
final class ModuleDirectory {
    let path: String

    /// - Parameter modules: the text of each, by name.
    init(_ modules: [String: String]) throws {
        var template = Array("/tmp/opscript-modules-XXXXXX".utf8CString)
        guard unsafe template.withUnsafeMutableBufferPointer({ unsafe mkdtemp($0.baseAddress!) }) != nil else {
            fatalError("cannot make a directory for modules")
        }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        for (name, text) in modules {
            try Runtime().run("local f <close> = assert(io.open('\(path)/\(name).lua', 'w')); assert(f:write [====[\(text)]====])")
        }
    }

    deinit {
        _ = try? Runtime().run("for name in io.popen('ls \(path)'):lines() do os.remove('\(path)/' .. name) end os.remove '\(path)'")
    }

    /// A chunk that makes a state search here.
    var prelude: String { "package.path = '\(path)/?.lua;' .. package.path" }
}
