// Stands in for libnvidia-ml.so.1: what NVIDIA's device plugin asks of it, answered from the files of the simulated GPUs.
//
// Reads PROC_NVIDIA/gpus/*/information (default: /proc/driver/nvidia) at each nvmlInit. A GPU whose UUID is the name of a file in
// PROC_NVIDIA/lost has fallen off the bus (XID 79). tests/kubernetes/build adds all other functions of nvml.h as "not supported".
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml.h"

#define MOST 16
#define XID_FALLEN_OFF_THE_BUS 79

struct nvmlDevice_st {
    unsigned minor;
    char uuid[80], name[96], address[32];
    int lost; // and told so
};
static struct nvmlDevice_st gpus[MOST];
static unsigned count;

static const char *root(void) {
    const char *given = getenv("PROC_NVIDIA");
    return given ? given : "/proc/driver/nvidia";
}

static void value_of(const char *line, const char *key, char *value, size_t size) {
    if (strncmp(line, key, strlen(key)) != 0) return;
    line += strlen(key);
    line += strspn(line, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
}

static void read_gpus(void) {
    char pattern[256];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/gpus/*/information", root());
    count = 0;
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc && count < MOST; i++) {
        char line[256], minor[16] = "";
        struct nvmlDevice_st gpu = {0};
        FILE *file = fopen(found.gl_pathv[i], "r");
        if (file == NULL) continue;
        while (fgets(line, sizeof line, file) != NULL) {
            value_of(line, "Model:", gpu.name, sizeof gpu.name);
            value_of(line, "GPU UUID:", gpu.uuid, sizeof gpu.uuid);
            value_of(line, "Bus Location:", gpu.address, sizeof gpu.address);
            value_of(line, "Device Minor:", minor, sizeof minor);
        }
        fclose(file);
        gpu.minor = (unsigned)atoi(minor);
        gpus[count++] = gpu;
    }
    globfree(&found);
}

static int is_lost(const struct nvmlDevice_st *gpu) {
    char path[384];
    snprintf(path, sizeof path, "%s/lost/%s", root(), gpu->uuid);
    return access(path, F_OK) == 0;
}

nvmlReturn_t nvmlInit_v2(void) {
    read_gpus();
    return count > 0 ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t result) {
    static char text[40];
    snprintf(text, sizeof text, "error %d of the stand-in", result);
    return text;
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned size) { snprintf(version, size, "570.00.00"); return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned size) { snprintf(version, size, "12.570.00"); return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { *version = 12080; return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *number) { *number = count; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    if (index >= count) return NVML_ERROR_INVALID_ARGUMENT;
    device->handle = &gpus[index];
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    for (unsigned i = 0; i < count; i++)
        if (strcmp(uuid, gpus[i].uuid) == 0) return nvmlDeviceGetHandleByIndex_v2(i, device);
    return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size) { snprintf(uuid, size, "%s", device.handle->uuid); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned size) { snprintf(name, size, "%s", device.handle->name); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) { *index = (unsigned)(device.handle - gpus); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor) { *minor = device.handle->minor; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    sscanf(device.handle->address, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return NVML_SUCCESS;
}

// The same of every GPU, and no MIG.
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand) { (void)device; *brand = NVML_BRAND_NVIDIA; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *kind) {
    (void)device;
    *kind = NVML_DEVICE_ARCH_AMPERE;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    (void)device;
    *major = 8, *minor = 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    (void)device;
    memory->total = memory->free = 40ull << 30;
    memory->used = 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending) { (void)device; *now = *pending = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig) { (void)device; *is_mig = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *most) { (void)device; *most = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level) {
    (void)one, (void)other;
    *level = NVML_TOPOLOGY_NODE;
    return NVML_SUCCESS;
}

// Events: one set for all GPUs.
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    (void)device;
    *types = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) { set->handle = (void *)gpus; return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) { (void)set; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    (void)device, (void)types, (void)set;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned milliseconds) {
    (void)set;
    for (unsigned spent = 0; spent < milliseconds; spent += 200, usleep(200000))
        for (unsigned i = 0; i < count; i++) {
            int before = gpus[i].lost;
            gpus[i].lost = is_lost(&gpus[i]);
            if (gpus[i].lost && !before) {
                memset(data, 0, sizeof *data);
                data->device.handle = &gpus[i];
                data->eventType = nvmlEventTypeXidCriticalError;
                data->eventData = XID_FALLEN_OFF_THE_BUS;
                return NVML_SUCCESS;
            }
        }
    return NVML_ERROR_TIMEOUT;
}
