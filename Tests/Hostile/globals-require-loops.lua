-- expect: timeout
package.preload.endless = function() while true do end end require("endless")
