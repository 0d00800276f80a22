#include "CTerminal.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// The file for lua-language-server describes each function and field in a few words, which the prompt shows.
static const char text[] = {
#embed "../../editor/opscript.d.lua"
    , 0};

const char *ct_annotations(void) { return text; }
