import LuaBindings
@main struct Opscript { static func main() { } }
