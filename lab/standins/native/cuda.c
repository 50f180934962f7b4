/* Double of libcuda.so.1: whether a CUDA program could start, from the lab's state (see nvml.c).
 *
 * Codes of cuda.h (CUresult): 3 not initialised, 100 no device, 802 the NVSwitch fabric is not
 * ready, 803 library and module of two versions, 999 unknown.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flat.h"

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100,
       SYSTEM_NOT_READY = 802, DRIVER_MISMATCH = 803, UNKNOWN = 999 };
enum { FABRIC_COMPLETED = 3 };

static struct node node;
static int ready;

static int start(void)
{
    read_node(&node);
    if (node.hang) {
        signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    }
    if (node.status == 18)
        return DRIVER_MISMATCH;
    if (node.status == 9)
        return NO_DEVICE; /* no module, so no device */
    if (node.status != 0)
        return UNKNOWN;
    if (!node.count)
        return NO_DEVICE;
    if (node.switches && node.fabric != FABRIC_COMPLETED)
        return SYSTEM_NOT_READY;
    return SUCCESS;
}

int cuInit(unsigned flags)
{
    int result;
    if (flags)
        return INVALID_VALUE;
    result = start();
    ready = result == SUCCESS;
    return result;
}

int cuDeviceGetCount(int *to)
{
    if (!ready)
        return NOT_INITIALIZED;
    if (!to)
        return INVALID_VALUE;
    *to = node.count;
    return SUCCESS;
}

int cuDriverGetVersion(int *to)
{
    if (!to)
        return INVALID_VALUE;
    *to = CUDA_NUMBER;
    return SUCCESS;
}

int cuGetErrorName(int result, const char **to)
{
    static const struct { int code; const char *name; } names[] = {
        {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY"},
        {DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {UNKNOWN, "CUDA_ERROR_UNKNOWN"},
    };
    if (!to)
        return INVALID_VALUE;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (names[at].code == result) {
            *to = names[at].name;
            return SUCCESS;
        }
    *to = NULL;
    return INVALID_VALUE;
}
