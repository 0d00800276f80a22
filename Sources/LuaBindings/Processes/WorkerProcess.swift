import CLua
import OpPlatform

/// The other side of `Configuration.isolation = .process`, in the executable that runs as a worker process.
public enum WorkerProcess {
    /// The argument of a worker process.
    static let argument = "--opscript-worker"

    /// If a host has started this process as its worker process, serves the host and does not return: the process ends with its host. Otherwise
    /// returns at once. Call this first in `main`, before there is a runtime or another thread.
    ///
    /// The executable `opscript-worker` consists of this call. A host can be its own worker executable instead: it calls this function, and
    /// sets `isolation = .process(executable: "/proc/self/exe")`.
    public static func serveIfRequested() {
        guard isRequested else { return }
        unsafe clua_serve(3, 4, ScriptModule.host)
    }

    private static var isRequested: Bool { processArguments.dropFirst() == [argument] }

    /// Keeps a worker process whose executable does not serve from being a host, because that host would start such processes itself.
    static func refuseToBeHost() throws(LuaError) {
        guard isRequested else { return }
        throw LuaError(
            message: "a host has started this program as its worker process: call WorkerProcess.serveIfRequested() first in its main")
    }
}
