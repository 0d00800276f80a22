-- expect: ok
assert(package.searchpath == nil)
package.path = "/proc/self/?"
local found, message = pcall(require, "status")
assert(not found and message:find "not found")
