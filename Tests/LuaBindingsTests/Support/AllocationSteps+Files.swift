extension AllocationSteps {
    /// The steps with files, texts and modules.
    static let files = [
        "modules": """
        package.preload['opscript.test'] = function(name) return { name = name, list = { n } } end
        package.loaded['opscript.test'] = nil
        local module = require 'opscript.test'
        assert(module.name == 'opscript.test' and not pcall(require, 'opscript.no such module'))
        local added = q:addOperation(function() return module.list[1], package.path end)
        added:waitUntilFinished()
        if added.error then error(added.error.message, 0) end
        assert(added.result == n)
        """,
        "files": """
        local fs = opscript.fs
        local dir <const> = fs.path.join(fs.tempdir(), 'folder')
        assert(fs.mkdir(dir))
        assert(fs.write(dir .. '/a', ('text'):rep(5000)))
        assert(fs.symlink('a', dir .. '/link'))
        for path, kind, size in fs.walk(dir, { match = '**/*', hidden = true, follow = true }) do assert(#assert(fs.read(path)) == size) end
        assert(#fs.glob(dir .. '/**') == 2 and fs.stat(dir).type == 'directory' and fs.exists(dir) and fs.readlink(dir .. '/link') == 'a')
        assert(fs.copy(dir, dir .. '2'))
        assert(fs.move(dir .. '2', dir .. '3'))
        assert(fs.remove(dir .. '3'))
        assert(fs.remove(dir))
        assert(fs.remove(fs.tempfile()))
        return fs.path.split(dir), fs.path.absolute 'a', fs.path.relative(dir, '/')
        """,
        "JSON": #"""
        local json = opscript.json
        local text = json.encode({ n, 0.1, { key = ('text\"ä'):rep(500) }, json.array(), json.null, {} }, { pretty = true })
        local decoded = json.decode(text)
        assert(decoded[3].key == ('text\"ä'):rep(500) and json.encode(decoded[4]) == '[]')
        local ok, message = pcall(json.decode, '[1,')
        if message ~= 'not enough memory' then assert(message:find 'column 4', message) end
        """#,
    ]
}
