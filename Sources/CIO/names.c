// The system's words for signals and errors.
#include <signal.h>
#include <string.h>

#include "CIO.h"

const char *cio_signal_name(int signal_number) { return sigabbrev_np(signal_number); }

const char *cio_error_text(int error) {
    const char *text = strerrordesc_np(error);
    return text != NULL ? text : "unknown error";
}
