/* Double of libnvidia-ml.so.1: what the real nvidia-ml-py asks, answered from the lab's state.
 *
 * -DVERSION="580.173.02" is the library's own version; -DFLAT is the program whose output (flat.py)
 * describes the node. It is read once, by nvmlInit. Function names, codes and layouts are those of
 * nvml.h as nvidia-ml-py declares them; the layouts were proved with that binding. A function that
 * is not here is NVMLError_FunctionNotFound, as with an older library.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flat.h"

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_DATA = 6,
       SMALL_BUFFER = 7, UNKNOWN = 999, VERSION_MISMATCH = 25 };

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct field { unsigned id, scope; long long at, latency; unsigned type; int ret;
               union { double d; unsigned ui; unsigned long long ull; } value; };

static struct node node;
static int ready;

static int text(char *to, unsigned size, const char *from)
{
    if (!to)
        return INVALID_ARGUMENT;
    if (strlen(from) >= size)
        return SMALL_BUFFER;
    strcpy(to, from);
    return OK;
}

#define CHECK(gpu, out) do { if (!ready) return UNINITIALIZED; \
    if (!known(gpu) || !(out)) return INVALID_ARGUMENT; } while (0)

static int known(const struct gpu *gpu)
{
    return gpu >= node.gpus && gpu < node.gpus + node.count;
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    read_node(&node);
    if (node.hang) {
        signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    }
    ready = node.status == OK;
    return node.status;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void)
{
    int was = ready;
    ready = 0;
    return was ? OK : UNINITIALIZED;
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case SMALL_BUFFER: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 18: return "Driver/library version mismatch";
    case VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *to, unsigned size)
{
    return ready ? text(to, size, node.driver) : UNINITIALIZED;
}
int nvmlSystemGetNVMLVersion(char *to, unsigned size)
{
    return text(to, size, CUDA_MAJOR "." VERSION);
}
int nvmlSystemGetCudaDriverVersion_v2(int *to)
{
    if (!to)
        return INVALID_ARGUMENT;
    *to = CUDA_NUMBER;
    return OK;
}
int nvmlSystemGetCudaDriverVersion(int *to) { return nvmlSystemGetCudaDriverVersion_v2(to); }

int nvmlDeviceGetCount_v2(unsigned *to)
{
    if (!ready)
        return UNINITIALIZED;
    if (!to)
        return INVALID_ARGUMENT;
    *to = (unsigned)node.count;
    return OK;
}
int nvmlDeviceGetCount(unsigned *to) { return nvmlDeviceGetCount_v2(to); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **to)
{
    if (!ready)
        return UNINITIALIZED;
    if (!to || index >= (unsigned)node.count)
        return INVALID_ARGUMENT;
    *to = &node.gpus[index];
    return OK;
}
int nvmlDeviceGetHandleByIndex(unsigned index, struct gpu **to)
{
    return nvmlDeviceGetHandleByIndex_v2(index, to);
}

int nvmlDeviceGetIndex(struct gpu *gpu, unsigned *to)
{
    CHECK(gpu, to);
    *to = (unsigned)(gpu - node.gpus);
    return OK;
}
int nvmlDeviceGetName(struct gpu *gpu, char *to, unsigned size)
{
    CHECK(gpu, to);
    return text(to, size, gpu->name);
}
int nvmlDeviceGetUUID(struct gpu *gpu, char *to, unsigned size)
{
    CHECK(gpu, to);
    return text(to, size, gpu->uuid);
}

int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci *to)
{
    CHECK(gpu, to);
    memset(to, 0, sizeof *to);
    sscanf(gpu->bus, "%x:%x:%x", &to->domain, &to->bus, &to->device);
    snprintf(to->bus_id, sizeof to->bus_id, "%s", gpu->bus);
    snprintf(to->legacy, sizeof to->legacy, "%04X:%02X:%02X.0", to->domain & 0xffff,
             to->bus & 0xff, to->device & 0xff);
    to->id = (unsigned)strtoul(gpu->device, NULL, 16);
    to->subsystem = 0x16C110DE;
    return OK;
}
int nvmlDeviceGetPciInfo(struct gpu *gpu, struct pci *to)
{
    return nvmlDeviceGetPciInfo_v3(gpu, to);
}

int nvmlDeviceGetMemoryInfo(struct gpu *gpu, unsigned long long *to) /* total, free, used: bytes */
{
    CHECK(gpu, to);
    to[0] = 81559ull << 20;
    to[2] = 1ull << 20;
    to[1] = to[0] - to[2];
    return OK;
}
int nvmlDeviceGetTemperature(struct gpu *gpu, int sensor, unsigned *to)
{
    CHECK(gpu, to);
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *to = (unsigned)gpu->temperature;
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(struct gpu *gpu, unsigned *to) /* milliwatts */
{
    CHECK(gpu, to);
    *to = (unsigned)gpu->power_limit * 1000u;
    return OK;
}

#define NUMBER(function, field) \
    int function(struct gpu *gpu, unsigned *to) \
    { \
        CHECK(gpu, to); \
        *to = (unsigned)gpu->field; \
        return OK; \
    }
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, gen)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, gen_max)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, width)

int nvmlDeviceGetEccMode(struct gpu *gpu, unsigned *now, unsigned *next)
{
    CHECK(gpu, now);
    if (!next)
        return INVALID_ARGUMENT;
    *now = (unsigned)gpu->ecc;
    *next = (unsigned)gpu->ecc_pending;
    return OK;
}
/* kind: 0 corrected, 1 uncorrected; counter: 0 volatile, 1 aggregate. None is corrected here. */
int nvmlDeviceGetTotalEccErrors(struct gpu *gpu, int kind, int counter, unsigned long long *to)
{
    CHECK(gpu, to);
    if (kind < 0 || kind > 1 || counter < 0 || counter > 1)
        return INVALID_ARGUMENT;
    if (!gpu->ecc)
        return NOT_SUPPORTED;
    *to = kind == 1 ? (unsigned long long)gpu->ecc_errors : 0;
    return OK;
}
int nvmlDeviceGetRemappedRows(struct gpu *gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    CHECK(gpu, corrected);
    if (!uncorrected || !pending || !failed)
        return INVALID_ARGUMENT;
    *corrected = (unsigned)gpu->remap_corr;
    *uncorrected = (unsigned)gpu->remap_unc;
    *pending = (unsigned)gpu->remap_pending;
    *failed = (unsigned)gpu->remap_failed;
    return OK;
}

int nvmlDeviceGetNvLinkState(struct gpu *gpu, unsigned link, unsigned *to)
{
    CHECK(gpu, to);
    if (link >= strlen(gpu->links))
        return INVALID_ARGUMENT;
    *to = gpu->links[link] == '1';
    return OK;
}
/* NVML_TOPOLOGY_NODE 40 inside a NUMA node, NVML_TOPOLOGY_SYSTEM 50 across */
int nvmlDeviceGetTopologyCommonAncestor(struct gpu *gpu, struct gpu *other, int *to)
{
    CHECK(gpu, to);
    if (!known(other))
        return INVALID_ARGUMENT;
    *to = gpu->numa == other->numa ? 40 : 50;
    return OK;
}
/* capability 2 is NVLink (NVML_P2P_CAPS_INDEX_NVLINK); status 0 ok, 5 not supported */
int nvmlDeviceGetP2PStatus(struct gpu *gpu, struct gpu *other, int capability, int *to)
{
    size_t place = (size_t)(other - node.gpus);
    CHECK(gpu, to);
    if (!known(other))
        return INVALID_ARGUMENT;
    *to = capability == 2 && (place >= strlen(gpu->p2p) || gpu->p2p[place] != '1') ? 5 : 0;
    return OK;
}
/* 90: NVLink speed of all links, Mb/s a lane pair as NVML counts it; 91: number of links */
int nvmlDeviceGetFieldValues(struct gpu *gpu, int count, struct field *to)
{
    CHECK(gpu, to);
    for (int at = 0; at < count; at++) {
        to[at].ret = OK;
        to[at].type = 1;
        to[at].value.ull = 0;
        if (to[at].id == 90)
            to[at].value.ui = 26562;
        else if (to[at].id == 91)
            to[at].value.ui = (unsigned)strlen(gpu->links);
        else
            to[at].ret = NOT_SUPPORTED;
    }
    return OK;
}

/* clusterUuid (zero, as a single node has it), status, cliqueId, state */
static void fabric(unsigned char *to)
{
    int status = OK;
    unsigned clique = (unsigned)node.clique, state = (unsigned)node.fabric;
    memset(to, 0, 28);
    memcpy(to + 16, &status, 4);
    memcpy(to + 20, &clique, 4);
    memcpy(to + 24, &state, 4);
}
int nvmlDeviceGetGpuFabricInfo(struct gpu *gpu, unsigned char *to)
{
    CHECK(gpu, to);
    fabric(to);
    return OK;
}
int nvmlDeviceGetGpuFabricInfoV(struct gpu *gpu, unsigned char *to)
{
    unsigned version;
    CHECK(gpu, to);
    memcpy(&version, to, 4);
    if (version != 0x02000024 && version != 0x03000028)
        return VERSION_MISMATCH;
    fabric(to + 4);
    memset(to + 32, 0, version == 0x02000024 ? 4 : 8); /* healthMask, healthSummary: not supported */
    return OK;
}
