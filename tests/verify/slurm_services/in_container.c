/* Runs in a container: what opening each GPU says (errno), and the version of NVIDIA's library, where there is one.
   Then it sleeps for the seconds of its first argument and ends with the status of the second. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[32];
    for (int number = 0; number < 2; number++) {
        snprintf(path, sizeof path, "/dev/nvidia%d", number);
        int device = open(path, O_RDWR);
        printf("%s %d\n", path, device < 0 ? errno : 0);
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int version = 0;
    if (library) ((int (*)(int *))dlsym(library, "cuDriverGetVersion"))(&version);
    printf("cuda %d\n", version);
    fflush(stdout);
    sleep(argc > 1 ? atoi(argv[1]) : 0);
    return argc > 2 ? atoi(argv[2]) : 0;
}
