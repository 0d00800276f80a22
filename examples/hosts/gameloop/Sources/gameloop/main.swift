// A game whose scripts run jobs on the other processors. Each frame updates the world, runs the scripts' callbacks for a part of
// the frame's time, draws, and sleeps until the next frame is due.
//
//     gameloop [FRAMES]
import LuaBindings
import OpEngine

let frames = CommandLine.arguments.count > 1 ? Int(CommandLine.arguments[1]) ?? 600 : 600
/// The time from one frame to the next: sixty a second.
let frameTime = Duration.nanoseconds(1_000_000_000 / 60)
/// The part of it that scripts may use.
let scriptTime = Duration.milliseconds(4)

// Jobs leave one processor to the frames.
var configuration = Runtime.Configuration()
configuration.workerCount = max(1, Engine.processorCount - 1)
let runtime = try Runtime(configuration)
let world = World()
try runtime.register("place") { (tree: Int, height: Double) in world.place(tree, height) }

// Ten thousand jobs, each with a callback in the main state: more than fits into a frame.
try runtime.run(
    """
    local queue = opscript.OperationQueue.new "forest"
    for tree = 1, 10000 do
      local job = opscript.Operation.new(function(op, seed)
        local height = 0
        for step = 1, 200 do height = height + math.sin(seed * step) end
        return height
      end, tree)
      job.completionBlock = function(job) place(tree, job.result) end
      queue:addOperation(job)
    end
    """)

let clock = ContinuousClock()
var due = clock.now
var late = 0, left = 0
for frame in 1...frames {
    let start = clock.now
    world.update()
    if try runtime.drain(for: scriptTime) { left += 1 }
    world.draw()
    let used = start.duration(to: clock.now)
    if used > frameTime {
        late += 1
        print("frame \(frame) took \(used / .milliseconds(1)) ms")
    }
    due += frameTime
    if due > clock.now { try await Task.sleep(until: due, clock: clock) } else { due = clock.now }
}
_ = try await runtime.finish()
print("\(frames) frames, \(world.treeCount) trees; \(left) frames left callbacks to the next one; \(late) frames were over budget")
runtime.close()
