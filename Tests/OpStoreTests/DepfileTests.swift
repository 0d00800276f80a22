import Testing

@testable import OpStore

/// The format of `cc -MF`.
@Suite struct DepfileTests {
    @Test(arguments: [
        ("a.o: a.c a.h\n", ["a.c", "a.h"]),
        ("a.o: a.c \\\n  a.h \\\r\n b.h", ["a.c", "a.h", "b.h"]),
        ("a.o b.o : a.c\na.h:\nb.h: \n", ["a.c"]),
        ("a.o:\\\n a.c", ["a.c"]),
        ("a.o: a\\ b.c c\\#d.c $$e.c", ["a b.c", "c#d.c", "$e.c"]),
        ("a.o: dir\\file.c a\\\\ b\\\\\\ c", ["dir\\file.c", "a\\", "b\\ c"]),
        ("c\\:a.o: x\\:y.h z:w.h", ["x:y.h", "z:w.h"]),
        ("a:b.o: a.c", ["a.c"]),
        ("a.o: a.c\tb.c a.c", ["a.c", "b.c"]),
        ("a.o: a.c\nb.o: b.c a.c", ["a.c", "b.c"]),
        ("a.o: ü.c $x", ["ü.c", "$x"]),
        ("a.o:", []),
    ])
    func prerequisites(text: String, names: [String]) { #expect(Depfile.rules(in: Array(text.utf8))?.prerequisites == names) }

    @Test(arguments: ["", "\n", "a.o a.c", "a.o a:b", "a.o: a\0.c", "a.o: a.c\nb.o:b.c a.c\n", "a.o: a.c\nb.c"])
    func aTextWithoutARuleIsNone(text: String) {
        #expect(Depfile.rules(in: Array(text.utf8)) == nil)
    }
}
