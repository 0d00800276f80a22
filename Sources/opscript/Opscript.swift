import CLua
import OpEngine
import Synchronization
@main struct Opscript { static func main() { let l = unsafe luaL_newstate(); print(unsafe l != nil) ; let m = Mutex(1); print(m.withLock{$0}) } }
