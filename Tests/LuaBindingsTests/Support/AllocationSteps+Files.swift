extension AllocationSteps {
    /// The steps with files and texts.
    static let files = [
        "files": """
        local fs = opscript.fs
        local dir <const> = fs.path.join(fs.tempdir(), 'folder')
        -- Some failures are the system's; a script sees those as results.
        local function checked(value, message, code)
          if value == nil then error(code == 12 and 'not enough memory' or message, 0) end
          return value
        end
        checked(fs.mkdir(dir))
        checked(fs.write(dir .. '/a', ('text'):rep(5000)))
        checked(fs.symlink('a', dir .. '/link'))
        for path, kind, size in fs.walk(dir, { match = '**/*', hidden = true, follow = true }) do assert(#checked(fs.read(path)) == size) end
        assert(#fs.glob(dir .. '/**') == 2 and fs.stat(dir).type == 'directory' and fs.exists(dir) and fs.readlink(dir .. '/link') == 'a')
        checked(fs.copy(dir, dir .. '2'))
        checked(fs.move(dir .. '2', dir .. '3'))
        checked(fs.remove(dir .. '3'))
        checked(fs.remove(dir))
        checked(fs.remove(fs.tempfile()))
        return fs.path.split(dir), fs.path.absolute 'a', fs.path.relative(dir, '/')
        """,
    ]
}
