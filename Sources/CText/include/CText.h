// The width of text on a terminal.
#ifndef CTEXT_H
#define CTEXT_H

#include <locale.h>

/// Makes a locale that knows the characters of UTF-8. The caller owns it. NULL if the system has none.
locale_t ctext_make_locale(void);

/// The number of columns that a character takes, whatever the locale of the thread; -1 if it cannot be printed.
int ctext_width(unsigned int character);

#endif
