-- expect: error: module 'x' not found
package.path, package.cpath = "/tmp/?.lua", "/tmp/?.so" return require("x")
