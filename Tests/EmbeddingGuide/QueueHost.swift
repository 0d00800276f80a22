import Dispatch
import LuaBindings

func runOnSerialQueue() {
    let queue = DispatchQueue(label: "scripts")
    let ended = DispatchSemaphore(value: 0)
    queue.async {
        do {
            let runtime = try Runtime()
            runtime.onWake = { queue.async { _ = try? runtime.drain() } }
            try runtime.register("ended") { _ in
                // Not here: this call is inside the runtime.
                queue.async {
                    runtime.close()
                    ended.signal()
                }
                return []
            }
            try runtime.run(
                """
                local count = 0
                local timer
                timer = opscript.every(0.001, function()
                  count = count + 1
                  if count == 3 then
                    timer:cancel()
                    print 'three times in a dispatch queue'
                    ended()
                  end
                end)
                """)
        } catch { print(error) }
    }
    ended.wait()
}
