// SwiftPM wants a source file in a target of C. This one checks that the header stands alone.
#include "opscript.h"
