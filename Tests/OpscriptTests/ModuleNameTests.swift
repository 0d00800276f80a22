import Testing

/// Modules that `package.loaded` has under two names.
@Suite("Names of modules")
struct ModuleNameTests {
    /// A script that captures a module with two names, and fields of it.
    private static func script(_ modules: String) -> String {
        """
        \(modules)
        local shape = require "shape"
        local area, volume = shape.area, shape.volume
        local socket = require "socket"
        local core = require "socket.core"
        local op = opscript.OperationQueue.new():addOperation(function()
          local hasBoth = socket.bind ~= nil and core.bind ~= nil
          return { shape.area(2, 3), shape.volume(2, 3, 4), area(2, 3), volume(2, 3, 4), tostring(hasBoth) }
        end)
        op:waitUntilFinished()
        print(op.error or table.concat(op.result, " "))
        """
    }

    // The order of a table is another one in each process.
    @Test(
        "A module with two names travels under the name whose load contains the other, in each of 100 processes",
        arguments: ["require 'solid'", "require 'shape' require 'solid'", "require 'socket.core' require 'solid'"])
    func name(modules: String) throws {
        let processes = modules == "require 'solid'" ? 100 : 20
        for _ in 0..<processes {
            let outcome = try Command.opscript("-e", Self.script(modules))
                .environment(["LUA_PATH": Paths.golden + "/modules/?.lua;;"]).run()
            #expect(outcome.text == "6 24 6 24 true\n" && outcome.status == 0, "\(outcome)")
        }
    }
}
