// The words of the command line, found faster than the Swift runtime finds them. Only that runtime calls these functions.
#ifndef CARGUMENTS_H
#define CARGUMENTS_H

/// Returns the words of the command line to `CommandLine`, and sets `*count` to their number.
char **_swift_stdlib_getUnsafeArgvArgc(int *count);

/// Replaces the words that `CommandLine` reads.
void _swift_stdlib_overrideUnsafeArgvArgc(char **words, int count);

#endif
