#define _GNU_SOURCE
#include "CText.h"

#include <langinfo.h>
#include <stddef.h>
#include <string.h>
#include <wchar.h>

locale_t ctext_make_locale(void) {
    locale_t made = newlocale(LC_CTYPE_MASK, "", NULL);
    if (made != NULL && strcmp(nl_langinfo_l(CODESET, made), "UTF-8") == 0) return made;
    if (made != NULL) freelocale(made);
    return newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
}

int ctext_width(unsigned int character) {
    static locale_t own;
    if (own == NULL) own = ctext_make_locale();
    locale_t before = own != NULL ? uselocale(own) : NULL;
    int width = wcwidth((wchar_t)character);
    if (own != NULL) uselocale(before);
    return width;
}
