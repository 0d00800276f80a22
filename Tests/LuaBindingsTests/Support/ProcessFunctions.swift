/// Functions for scripts about processes: `isGone(pid)` tells whether a process has ended, even if it is still a zombie; `awaitEnd(pid)` waits for
/// that.
let processFunctions = """
    function isGone(pid)
        local file <close> = io.open('/proc/' .. pid .. '/stat')
        local text = file and file:read 'a'  -- nil when it has gone since
        return not text or text:match('%) (%a)') == 'Z'
    end
    function awaitEnd(pid)
        local stop = opscript.now() + 30
        while not isGone(pid) do
            assert(opscript.now() < stop, 'a process did not end')
            opscript.sleep(0.01)
        end
    end

    """
