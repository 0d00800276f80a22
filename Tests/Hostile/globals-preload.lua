-- expect: ok
package.preload.string = function() while true do end end return true
