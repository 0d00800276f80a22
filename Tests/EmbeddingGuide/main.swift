import LuaBindings
import OpEngine

let runtime = try Runtime()
try runtime.register("price") { arguments in [.integer(arguments[0].text == "apple" ? 3 : 4)] }
let sum = try runtime.run("return price 'apple' + price 'pear'")[0]
print("the sum is", sum.integer!)

let operation = try runtime.run(
    """
    return opscript.OperationQueue.new():addOperation(function() return price 'apple' * 14 end)
    """)[0].operation!
try await operation.finished()
// Perhaps on another thread now, which makes no difference.
print("the operation returned", try runtime.results(of: operation)[0].integer!)

try await runTimers()
try await runInActor()
runOnSerialQueue()
try await runGameLoop()
try await runPollingLoop()
try await cancelScript()
try await endUsers()

runtime.close()
