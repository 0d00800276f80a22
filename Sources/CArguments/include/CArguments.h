// The words of the command line, found faster than the Swift runtime finds them. Nothing calls these functions but that runtime.
#ifndef CARGUMENTS_H
#define CARGUMENTS_H

/// What `CommandLine` reads.
char **_swift_stdlib_getUnsafeArgvArgc(int *count);

/// Replaces what `CommandLine` reads.
void _swift_stdlib_overrideUnsafeArgvArgc(char **words, int count);

#endif
