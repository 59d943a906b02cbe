/* Stands in for NVIDIA's libcuda.so.1 where a GPU computes: the functions of CUDA's driver interface that a small computation needs, with
   the types of its reference. The one program that it knows is run here by the processor. A number in /run/libcuda_says is the error
   that starting it ends with. The hosts that compile it have no headers of the C library. */
#include <stddef.h>
#include <stdint.h>

void *malloc(size_t bytes);
void free(void *memory);
void *memcpy(void *to, const void *from, size_t bytes);
int strcmp(const char *one, const char *other);
size_t strlen(const char *text);
char *strstr(const char *text, const char *part);
int open(const char *path, int flags, ...);
long read(int file, void *to, size_t bytes);
int close(int file);

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_PTX = 218, NOT_FOUND = 500, SYSTEM_NOT_READY = 802 };

int cuInit(unsigned int flags) {
    int code = 0, file = open("/run/libcuda_says", 0);
    for (char digit; file >= 0 && read(file, &digit, 1) == 1 && digit != '\n';)
        code = 10 * code + digit - '0';
    if (file >= 0)
        close(file);
    return flags ? INVALID_VALUE : code;
}

int cuGetErrorName(int code, const char **name) {
    *name = code == SYSTEM_NOT_READY ? "CUDA_ERROR_SYSTEM_NOT_READY" : "CUDA_ERROR_UNKNOWN";
    return 0;
}

int cuGetErrorString(int code, const char **words) {
    *words = code == SYSTEM_NOT_READY ? "system not yet initialized" : "unknown error";
    return 0;
}

int cuDeviceGetByPCIBusId(int *device, const char *address) {
    *device = 0;
    return strlen(address) == strlen("0000:01:00.0") ? 0 : INVALID_DEVICE;
}

int cuCtxCreate_v2(void **context, unsigned int flags, int device) {
    *context = malloc(1);
    return flags || device;
}

int cuCtxDestroy_v2(void *context) {
    free(context);
    return 0;
}

int cuCtxSynchronize(void) {
    return 0;
}

int cuModuleLoadData(void **module, const void *program) {
    *module = (void *)program;
    return strstr(program, ".visible .entry square(.param .u64 numbers, .param .u32 count)") ? 0 : INVALID_PTX;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strcmp(name, "square") ? NOT_FOUND : 0;
}

int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
    *memory = (uintptr_t)malloc(bytes);
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

int cuLaunchKernel(void *function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads_x, unsigned int threads_y,
                   unsigned int threads_z, unsigned int shared, void *stream, void **arguments, void **more) {
    uint32_t *numbers = (uint32_t *)(uintptr_t) * (uint64_t *)arguments[0], count = *(uint32_t *)arguments[1];
    unsigned int all = x * y * z * threads_x * threads_y * threads_z;
    for (unsigned int index = 0; index < all && index < count; index++)
        numbers[index] *= numbers[index];
    return !function || shared || stream || more;
}
